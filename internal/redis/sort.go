package redis

// sortCommands are the commands of sorting.
var sortCommands = []*command{}
