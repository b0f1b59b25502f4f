package redis

// scriptCommands are the commands of scripts.
var scriptCommands = []*command{}
