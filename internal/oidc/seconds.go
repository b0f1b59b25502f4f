package oidc

import (
	"encoding/json"
	"errors"
	"math"
	"strconv"
)

// Seconds is the lifetime of a token. In JSON it is a whole number in any notation, such as 3600.0 or
// 3.6e3, since some encoders know no integers.
type Seconds int64

// maxExact is the largest number up to which a float64 holds every whole number.
const maxExact = 1 << 53

// UnmarshalJSON accepts whole numbers. Those beyond maxExact become the largest or smallest Seconds.
func (s *Seconds) UnmarshalJSON(b []byte) error {
	var n json.Number
	if err := json.Unmarshal(b, &n); err != nil {
		return err
	}
	f, err := strconv.ParseFloat(n.String(), 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		return err
	}
	switch {
	case f > maxExact:
		*s = math.MaxInt64
	case f < -maxExact:
		*s = math.MinInt64
	case f != math.Trunc(f):
		return errors.New("expected a whole number of seconds")
	default:
		*s = Seconds(f)
	}
	return nil
}
