package redis

// listCommands are the commands of lists.
var listCommands = []*command{}

func loadList(*loader) value { return nil }
