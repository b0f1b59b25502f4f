package redis

// unsubscribeAll ends the subscriptions of a client.
func (s *Store) unsubscribeAll(c *Client) {
	c.channels = nil
	c.patterns = nil
}

// pubSubCommands are the commands of publish and subscribe.
var pubSubCommands = []*command{}
