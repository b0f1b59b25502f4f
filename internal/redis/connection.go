package redis

import "strings"

// redisVersion is the Redis version that clients may expect us to behave like.
const redisVersion = "7.0.15"

const flagsOfClient = flagNoScript

// connectionCommands has the connection commands. connection_list.go has those about other clients, and
// tracking.go those about tracking.
var connectionCommands = []*command{
	{name: "auth", arity: -2, flags: flagAllowBusy | flagNoScript | flagFast | flagNoMulti, run: auth, categories: "connection"},
	{name: "hello", arity: -1, flags: flagAllowBusy | flagNoScript | flagFast, run: hello, categories: "connection"},
	{name: "reset", arity: 1, flags: flagAllowBusy | flagNoScript | flagFast | flagSubscribed, run: reset, categories: "connection"},
	{name: "quit", arity: -1, flags: flagAllowBusy | flagNoScript | flagFast | flagSubscribed, run: quit, categories: "connection"},
	{name: "select", arity: 2, flags: flagFast, run: selectDB, categories: "connection"},
	{name: "client", arity: -2, sub: []*command{
		{name: "client|caching", arity: 3, flags: flagsOfClient, run: clientCaching, categories: "connection"},
		{name: "client|getname", arity: 2, flags: flagsOfClient, run: clientGetName, categories: "connection"},
		{name: "client|getredir", arity: 2, flags: flagsOfClient, run: clientGetRedir, categories: "connection"},
		{name: "client|help", arity: 2, run: help, categories: "connection"},
		{name: "client|id", arity: 2, flags: flagsOfClient, run: clientID, categories: "connection"},
		{name: "client|info", arity: 2, flags: flagsOfClient, run: clientInfo, categories: "connection"},
		{name: "client|kill", arity: -3, flags: flagsOfClient | flagAdmin, run: clientKill, categories: "connection"},
		{name: "client|list", arity: -2, flags: flagsOfClient | flagAdmin, run: clientList, categories: "connection"},
		{name: "client|no-evict", arity: 3, flags: flagsOfClient | flagAdmin, run: clientNoEvict, categories: "connection"},
		{name: "client|no-touch", arity: 3, flags: flagsOfClient, run: clientNoTouch, categories: "connection"},
		{name: "client|pause", arity: -3, flags: flagsOfClient | flagAdmin, run: clientPause, categories: "connection"},
		{name: "client|reply", arity: 3, flags: flagsOfClient, run: clientReply, categories: "connection"},
		{name: "client|setinfo", arity: 4, flags: flagsOfClient, run: clientSetInfo, categories: "connection"},
		{name: "client|setname", arity: 3, flags: flagsOfClient, run: clientSetName, categories: "connection"},
		{name: "client|tracking", arity: -3, flags: flagsOfClient, run: clientTracking, categories: "connection"},
		{name: "client|trackinginfo", arity: 2, flags: flagsOfClient, run: clientTrackingInfo, categories: "connection"},
		{name: "client|unblock", arity: -3, flags: flagsOfClient | flagAdmin, run: clientUnblock, categories: "connection"},
		{name: "client|unpause", arity: 2, flags: flagsOfClient | flagAdmin, run: clientUnpause, categories: "connection"},
	}},
}

// auth refuses AUTH. Whoever reads the requests authenticates clients, outside transactions.
func auth(x *call) error {
	if len(x.args) > 3 {
		return errSyntax
	}
	return errorf("ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?")
}

// Hello is a parsed HELLO request.
type Hello struct {
	// Protocol is 2 or 3, or 0 to keep the current one.
	Protocol int
	// Auth reports whether there are a User and a Password.
	Auth           bool
	User, Password string
	// Named reports whether there is a Name.
	Named bool
	Name  string
}

// ParseHello reads a HELLO request. Its errors are replies.
func ParseHello(args []string) (Hello, error) {
	var h Hello
	if len(args) < 2 {
		return h, nil
	}
	version, ok := parseInt(args[1])
	if !ok {
		return h, errorf("ERR Protocol version is not an integer or out of range")
	}
	if version < 2 || version > 3 {
		return h, errorf("NOPROTO unsupported protocol version")
	}
	h.Protocol = int(version)
	for i := 2; i < len(args); {
		switch left := len(args) - i - 1; {
		case strings.EqualFold(args[i], "AUTH") && left >= 2:
			h.Auth = true
			h.User, h.Password = args[i+1], args[i+2]
			i += 3
		case strings.EqualFold(args[i], "SETNAME") && left >= 1:
			h.Named = true
			h.Name = args[i+1]
			i += 2
			if err := validName(h.Name); err != nil {
				return h, err
			}
		default:
			return h, errorf("ERR Syntax error in HELLO option '%s'", args[i])
		}
	}
	return h, nil
}

// Request returns the request without the credentials.
func (h Hello) Request() []string {
	args := []string{"hello"}
	if h.Protocol != 0 {
		args = append(args, formatInt(int64(h.Protocol)))
	}
	if h.Named {
		args = append(args, "setname", h.Name)
	}
	return args
}

func hello(x *call) error {
	h, err := ParseHello(x.args)
	if err != nil {
		return err
	}
	if h.Auth {
		return errorf("WRONGPASS invalid username-password pair or user is disabled.")
	}
	if h.Named {
		x.client.name = strings.Clone(h.Name)
	}
	if h.Protocol != 0 {
		x.client.out.resp3 = h.Protocol == 3
	}
	x.out.mapOf(7)
	x.out.values(
		"server", "redis", "version", redisVersion, "proto", x.client.protocol(), "id", x.client.ID,
		"mode", x.mode(), "role", "master", "modules",
	)
	x.out.array(0)
	return nil
}

// protocol returns the protocol version.
func (c *Client) protocol() int64 {
	if c.out.resp3 {
		return 3
	}
	return 2
}

// reset returns the client to its state after connecting.
func reset(x *call) error {
	c := x.client
	c.dropQueue()
	x.unwatchAll(c)
	x.unsubscribeAll(c)
	x.untrack(c)
	c.out.resp3 = false
	c.name = ""
	c.muted = replyAll
	c.noTouch = false
	c.noEvict = false
	x.out.simple("RESET")
	return nil
}

func quit(x *call) error {
	x.client.quitting = true
	return x.replyOK()
}

func selectDB(x *call) error {
	if err := x.database(1); err != nil {
		return err
	}
	return x.replyOK()
}

// maxName is the most bytes in a client's name, and in its library's name and version.
const maxName = 1 << 10

// validName returns an error if a text cannot be a client's name.
func validName(name string) error {
	if len(name) > maxName {
		return errorf("ERR Client names cannot be longer than %d bytes.", maxName)
	}
	if !isPrintable(name) {
		return errorf("ERR Client names cannot contain spaces, newlines or special characters.")
	}
	return nil
}

func isPrintable(text string) bool {
	for i := range len(text) {
		if text[i] < '!' || text[i] > '~' {
			return false
		}
	}
	return true
}

func clientID(x *call) error { return x.replyInt(x.client.ID) }

func clientGetName(x *call) error {
	if x.client.name == "" {
		return x.replyNull()
	}
	return x.replyBulk(x.client.name)
}

func clientSetName(x *call) error {
	if err := validName(x.args[2]); err != nil {
		return err
	}
	x.client.name = strings.Clone(x.args[2])
	return x.replyOK()
}

// software is the client library that CLIENT SETINFO names.
type software struct{ name, version string }

func clientSetInfo(x *call) error {
	option := strings.ToLower(x.args[2])
	if option != "lib-name" && option != "lib-ver" {
		return errorf("ERR Unrecognized option '%s'", x.args[2])
	}
	if len(x.args[3]) > maxName {
		return errorf("ERR %s cannot be longer than %d bytes.", option, maxName)
	}
	if !isPrintable(x.args[3]) {
		return errorf("ERR %s cannot contain spaces, newlines or special characters.", option)
	}
	if option == "lib-name" {
		x.client.software.name = strings.Clone(x.args[3])
	} else {
		x.client.software.version = strings.Clone(x.args[3])
	}
	return x.replyOK()
}

// onOff reads an argument that is ON or OFF.
func (x *call) onOff(i int) (bool, error) {
	if !x.is(i, "ON") && !x.is(i, "OFF") {
		return false, errSyntax
	}
	return x.is(i, "ON"), nil
}

func clientNoEvict(x *call) (err error) {
	if x.client.noEvict, err = x.onOff(2); err == nil {
		x.out.ok()
	}
	return err
}

func clientNoTouch(x *call) (err error) {
	if x.client.noTouch, err = x.onOff(2); err == nil {
		x.out.ok()
	}
	return err
}

// muted says which replies a client does not want.
type muted int

const (
	replyAll muted = iota
	replyOff
	// replySkip leaves out the next request's reply.
	replySkip
)

func clientReply(x *call) error {
	switch strings.ToUpper(x.args[2]) {
	case "ON":
		x.client.muted = replyAll
		x.out.ok()
	case "OFF":
		x.client.muted = replyOff
	case "SKIP":
		if x.client.muted != replyOff {
			x.client.muted = replySkip
		}
	default:
		return errSyntax
	}
	return nil
}

// mute removes a request's reply if the client does not want it. The confirmation that a subscription
// has begun or ended is a message rather than a reply, so it stays.
func (c *Client) mute(skip bool, start int) {
	if !skip && c.muted != replyOff || len(c.out.b) <= start {
		return
	}
	if c.last != nil && c.last.flags&flagsOfSubscribe == flagsOfSubscribe && c.out.b[start] != '-' {
		return
	}
	c.out.b = c.out.b[:start]
}
