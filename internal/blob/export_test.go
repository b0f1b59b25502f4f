package blob

// ExplainDisk is explainDisk.
var ExplainDisk = explainDisk
