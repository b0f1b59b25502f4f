package redis

// hyperLogLogCommands are the commands of HyperLogLog.
var hyperLogLogCommands = []*command{}
