package redis

// streamCommands are the commands of streams.
var streamCommands = []*command{}

func loadStream(*loader) value { return nil }
