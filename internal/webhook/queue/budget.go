package queue

const (
	// shares is how many destinations at least it takes to use up the budget.
	shares = 16
	// taskBytes is about what a delivery takes in memory besides its receipt.
	taskBytes = 1 << 10
)

// sendBudget bounds what deliveries take of the process: bytes in memory, and sockets. Each destination
// may have a share of both. One that has nothing being sent may always start one delivery, if need
// be from the reserve. Its methods are called with lanes.mu held.
type sendBudget struct {
	bytes, reserved            int64 // in use
	sockets, reservedSockets   int
	maxBytes, reserveBytes     int64
	maxSockets, reserveSockets int
	shares                     int
}

// charge is what a task takes of the budget.
type charge struct {
	bytes    int64
	reserved bool
}

// newBudget returns a budget with so many sockets and bytes. A third of the sockets and half as many
// bytes again are in reserve, for destinations that have nothing being sent, so that those that hang
// cannot starve others.
func newBudget(sockets int, bytes int64) sendBudget {
	reserve := max(1, sockets/3)
	return sendBudget{
		maxBytes: bytes, reserveBytes: bytes / 2, maxSockets: max(1, sockets-reserve), reserveSockets: reserve,
		shares: shares,
	}
}

// share is how many bytes one destination may hold.
func (b *sendBudget) share() int64 { return b.maxBytes / int64(b.shares) }

// take charges a lane for bytes, and reports whether there was room. first says that the lane has
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

// force charges a lane for bytes that it holds already.
func (b *sendBudget) force(n *lane, bytes int64) charge {
	n.bytes += bytes
	b.bytes += bytes
	return charge{bytes: bytes}
}

// release gives back what was charged.
func (b *sendBudget) release(n *lane, c charge) {
	if c.reserved {
		b.reserved -= c.bytes
		return
	}
	n.bytes -= c.bytes
	b.bytes -= c.bytes
}

// takeSocket counts one more socket of a lane, and reports whether there was one.
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

// releaseSocket gives back a socket of a lane.
func (b *sendBudget) releaseSocket(n *lane) {
	if n.reservedSocket {
		n.reservedSocket = false
		b.reservedSockets--
		return
	}
	n.sockets--
	b.sockets--
}
