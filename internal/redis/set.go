package redis

// setCommands are the commands of sets.
var setCommands = []*command{}

func loadSet(*loader) value { return nil }
