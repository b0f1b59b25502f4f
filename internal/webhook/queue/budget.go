package queue

const (
	// shares is how many destinations it takes, at the least, to use up the budget.
	shares = 16
	// taskBytes estimates a delivery's memory without its receipt.
	taskBytes = 1 << 10
)

// sendBudget bounds the memory, in bytes, and the sockets that deliveries use in this process. Each
// destination may have a share of both. A destination that is sending nothing may always start one
// delivery, if need be from the reserve. Hold lanes.mu to call the methods.
type sendBudget struct {
	bytes, reserved            int64 // in use
	sockets, reservedSockets   int
	maxBytes, reserveBytes     int64
	maxSockets, reserveSockets int
	shares                     int
}

// charge is the part of the budget that a task uses.
type charge struct {
	bytes    int64
	reserved bool
}

// newBudget returns a budget. On top of the bytes, half as many again are in reserve, and so is a
// third of the sockets. The reserve serves destinations that are sending nothing, so that hanging ones
// cannot starve them.
func newBudget(sockets int, bytes int64) sendBudget {
	reserve := max(1, sockets/3)
	return sendBudget{
		maxBytes: bytes, reserveBytes: bytes / 2, maxSockets: max(1, sockets-reserve), reserveSockets: reserve,
		shares: shares,
	}
}

// share returns how many bytes one destination may hold.
func (b *sendBudget) share() int64 { return b.maxBytes / int64(b.shares) }

// take charges a lane for bytes, and reports whether there was room. first means that the lane has
// nothing else to send.
func (b *sendBudget) take(n *lane, bytes int64, first bool) (charge, bool) {
	switch {
	case n.bytes+bytes <= b.share() && b.bytes+bytes <= b.maxBytes:
		return b.force(n, bytes), true
	case first && (b.reserved == 0 || b.reserved+bytes <= b.reserveBytes):
		b.reserved += bytes
		return charge{bytes: bytes, reserved: true}, true
	}
	return charge{}, false
}

// force charges a lane for bytes that it already holds.
func (b *sendBudget) force(n *lane, bytes int64) charge {
	n.bytes += bytes
	b.bytes += bytes
	return charge{bytes: bytes}
}

// release gives back a charge.
func (b *sendBudget) release(n *lane, c charge) {
	if c.reserved {
		b.reserved -= c.bytes
		return
	}
	n.bytes -= c.bytes
	b.bytes -= c.bytes
}

// takeSocket gives a lane another socket, and reports whether there was one.
func (b *sendBudget) takeSocket(n *lane) bool {
	switch {
	case n.sockets < max(1, b.maxSockets/b.shares) && b.sockets < b.maxSockets:
		n.sockets++
		b.sockets++
		return true
	case n.sending == 0 && b.reservedSockets < b.reserveSockets:
		n.reservedSocket = true
		b.reservedSockets++
		return true
	}
	return false
}

// releaseSocket takes a socket back from a lane.
func (b *sendBudget) releaseSocket(n *lane) {
	if n.reservedSocket {
		n.reservedSocket = false
		b.reservedSockets--
		return
	}
	n.sockets--
	b.sockets--
}
