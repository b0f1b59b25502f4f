package redis

// serverCommands are the commands about the server and the connection.
var serverCommands = []*command{
	{name: "ping", arity: -1, flags: flagFast | flagSubscribed, run: ping, categories: "connection"},
	{name: "echo", arity: 2, flags: flagFast, run: echo, categories: "connection"},
}

func ping(x *call) error {
	switch {
	case len(x.args) > 2:
		return errorf("ERR wrong number of arguments for 'ping' command")
	case x.client.subscriptions() > 0 && !x.out.resp3:
		x.out.array(2)
		x.out.bulk("pong")
		x.out.bulk(pingText(x.args, ""))
	case len(x.args) == 2:
		x.out.bulk(x.args[1])
	default:
		x.out.simple("PONG")
	}
	return nil
}

func pingText(args []string, none string) string {
	if len(args) == 2 {
		return args[1]
	}
	return none
}

func echo(x *call) error {
	x.out.bulk(x.args[1])
	return nil
}
