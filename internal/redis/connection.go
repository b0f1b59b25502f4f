package redis

// connectionCommands are the commands of the connection: CLIENT, HELLO, RESET ….
var connectionCommands = []*command{}
