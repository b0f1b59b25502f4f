package redis

import (
	"cmp"
	"math"
	"strconv"
	"strings"
)

// streamID is a stream entry's ID: a time in milliseconds, and a number within it.
type streamID struct{ ms, seq uint64 }

// maxStreamID is the greatest ID.
var maxStreamID = streamID{math.MaxUint64, math.MaxUint64}

const errStreamID replyError = "ERR Invalid stream ID specified as stream command argument"

// compare returns -1, 0 or 1 if an ID is less than another, the same, or greater.
func (id streamID) compare(other streamID) int {
	if c := cmp.Compare(id.ms, other.ms); c != 0 {
		return c
	}
	return cmp.Compare(id.seq, other.seq)
}

func (id streamID) less(other streamID) bool { return id.compare(other) < 0 }

// next returns the ID that follows. After the greatest it wraps around to 0-0.
func (id streamID) next() streamID {
	id.seq++
	if id.seq == 0 {
		id.ms++
	}
	return id
}

// previous returns the ID before. Before 0-0 it wraps around to the greatest.
func (id streamID) previous() streamID {
	if id.seq == 0 {
		id.ms--
	}
	id.seq--
	return id
}

func (id streamID) String() string {
	b := strconv.AppendUint(make([]byte, 0, 40), id.ms, 10)
	b = append(b, '-')
	return string(strconv.AppendUint(b, id.seq, 10))
}

// maxIDLength is the longest ID that Redis reads, in bytes.
const maxIDLength = 127

// parseStreamID parses an ID: two numbers, or one. missing stands in for the second.
func parseStreamID(text string, missing uint64) (streamID, error) {
	if len(text) > maxIDLength {
		return streamID{}, errStreamID
	}
	text, _, _ = strings.Cut(text, "\x00")
	first, second, both := strings.Cut(text, "-")
	id := streamID{seq: missing}
	var ok bool
	if id.ms, ok = parseUint(first); !ok {
		return streamID{}, errStreamID
	}
	if !both {
		return id, nil
	}
	if id.seq, ok = parseUint(second); !ok {
		return streamID{}, errStreamID
	}
	return id, nil
}

// parseRangeID is like parseStreamID for a range's end, which may also be "-" or "+".
func parseRangeID(text string, missing uint64) (streamID, error) {
	switch text {
	case "-":
		return streamID{}, nil
	case "+":
		return maxStreamID, nil
	}
	return parseStreamID(text, missing)
}

// parseUint reads a number like C's strtoull, which allows spaces, a sign and zeros before it. It
// refuses a negative number in its shortest form.
func parseUint(text string) (uint64, bool) {
	if n, ok := parseInt(text); ok {
		return uint64(n), n >= 0
	}
	digits := strings.TrimLeft(text, " \t\n\v\f\r")
	negative := strings.HasPrefix(digits, "-")
	if negative || strings.HasPrefix(digits, "+") {
		digits = digits[1:]
	}
	n, err := strconv.ParseUint(digits, 10, 64)
	if err != nil {
		return 0, false
	}
	if negative {
		n = -n
	}
	return n, true
}

// parseStart returns the first ID in a range that begins at an argument. "(" excludes the ID itself.
func parseStart(text string) (streamID, error) {
	if len(text) < 2 || text[0] != '(' {
		return parseRangeID(text, 0)
	}
	id, err := parseStreamID(text[1:], 0)
	if err != nil {
		return id, err
	}
	if id == maxStreamID {
		return id, errorf("ERR invalid start ID for the interval")
	}
	return id.next(), nil
}

// parseEnd returns the last ID in a range that ends at an argument. "(" excludes the ID itself.
func parseEnd(text string) (streamID, error) {
	if len(text) < 2 || text[0] != '(' {
		return parseRangeID(text, math.MaxUint64)
	}
	id, err := parseStreamID(text[1:], math.MaxUint64)
	if err != nil {
		return id, err
	}
	if id == (streamID{}) {
		return id, errorf("ERR invalid end ID for the interval")
	}
	return id.previous(), nil
}

// parseIDs parses IDs.
func parseIDs(args []string) ([]streamID, error) {
	ids := make([]streamID, 0, len(args))
	for _, arg := range args {
		id, err := parseStreamID(arg, 0)
		if err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, nil
}

// streamID appends an ID.
func (r *reply) streamID(id streamID) { r.bulk(id.String()) }
