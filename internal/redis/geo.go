package redis

// geoCommands are the commands of geographic positions.
var geoCommands = []*command{}
