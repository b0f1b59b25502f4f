package redis

// bitmapCommands are the commands of bitmaps.
var bitmapCommands = []*command{}
