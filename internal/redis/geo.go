package redis

import (
	"math"
	"strconv"
	"strings"
)

// geoCommands has the commands for geographic positions. They work on sorted sets whose scores are
// positions.
var geoCommands = []*command{
	{name: "geoadd", arity: -5, flags: writes, first: 1, run: geoAdd, categories: "geo"},
	{name: "geodist", arity: -4, flags: flagReadonly, first: 1, run: geoDist, categories: "geo"},
	{name: "geohash", arity: -2, flags: flagReadonly, first: 1, run: geoHash, categories: "geo"},
	{name: "geopos", arity: -2, flags: flagReadonly, first: 1, run: geoPos, categories: "geo"},
	{name: "geosearch", arity: -7, flags: flagReadonly, first: 1, run: geoSearch, categories: "geo"},
	{name: "geosearchstore", arity: -8, flags: writes, first: 1, last: 2, run: geoSearchStore, categories: "geo"},
	{name: "georadius", arity: -6, flags: writes | flagMovableKeys, first: 1, run: geoRadius, categories: "geo"},
	{name: "georadius_ro", arity: -6, flags: flagReadonly, first: 1, run: geoRadius, categories: "geo"},
	{name: "georadiusbymember", arity: -5, flags: writes | flagMovableKeys, first: 1, run: geoRadiusByMember, categories: "geo"},
	{name: "georadiusbymember_ro", arity: -5, flags: flagReadonly, first: 1, run: geoRadiusByMember, categories: "geo"},
}

// position is a longitude and a latitude in degrees.
type position struct{ lon, lat float64 }

const (
	// maxLat is the greatest latitude in the Mercator projection.
	maxLat = 85.05112878
	// geoCells is the number of cells on each axis.
	geoCells = 1 << 26
	// earthRadius is in metres.
	earthRadius = 6372797.560856
)

// interleave returns a number with x in its even bits and y in its odd bits.
func interleave(x, y uint32) uint64 {
	var n uint64
	for i := range 32 {
		n |= uint64(x>>i&1)<<(2*i) | uint64(y>>i&1)<<(2*i+1)
	}
	return n
}

// geoBits returns a position's 52 bits, for latitudes from -maxLat to maxLat.
func (p position) geoBits(maxLat float64) uint64 {
	lat := (p.lat + maxLat) / (2 * maxLat)
	lon := (p.lon + 180) / 360
	return interleave(uint32(lat*geoCells), uint32(lon*geoCells))
}

// score returns a position's score in a sorted set.
func (p position) score() float64 { return float64(p.geoBits(maxLat)) }

// positionOf returns the middle of a score's cell.
func positionOf(score float64) position {
	bits := uint64(score)
	var lat, lon uint32
	for i := range 32 {
		lat |= uint32(bits>>(2*i)&1) << i
		lon |= uint32(bits>>(2*i+1)&1) << i
	}
	p := position{lon: middle(lon, 180), lat: middle(lat, maxLat)}
	p.lon = min(max(p.lon, -180), 180)
	p.lat = min(max(p.lat, -maxLat), maxLat)
	return p
}

// middle returns a cell's middle on an axis from -end to end.
func middle(cell uint32, end float64) float64 {
	low := -end + float64(cell)/geoCells*(2*end)
	high := -end + (float64(cell)+1)/geoCells*(2*end)
	return (low + high) / 2
}

func radians(degrees float64) float64 { return degrees * (math.Pi / 180) }

// distance returns the metres between two positions.
func (p position) distance(q position) float64 {
	lat1, lat2 := radians(p.lat), radians(q.lat)
	v := math.Sin((radians(q.lon) - radians(p.lon)) / 2)
	if v == 0 {
		return earthRadius * math.Abs(lat2-lat1)
	}
	u := math.Sin((lat2 - lat1) / 2)
	return 2 * earthRadius * math.Asin(math.Sqrt(u*u+math.Cos(lat1)*math.Cos(lat2)*v*v))
}

// unit returns a unit's length in metres.
func (x *call) unit(i int) (float64, error) {
	switch strings.ToLower(x.args[i]) {
	case "m":
		return 1, nil
	case "km":
		return 1000, nil
	case "ft":
		return 0.3048, nil
	case "mi":
		return 1609.34, nil
	}
	return 0, errorf("ERR unsupported unit provided. please use M, KM, FT, MI")
}

// position reads a position from two arguments.
func (x *call) position(i int) (p position, err error) {
	if p.lon, err = x.float(i); err != nil {
		return p, err
	}
	if p.lat, err = x.float(i + 1); err != nil {
		return p, err
	}
	if math.Abs(p.lon) > 180 || math.Abs(p.lat) > maxLat {
		return p, errorf("ERR invalid longitude,latitude pair %f,%f", p.lon, p.lat)
	}
	return p, nil
}

// geoAdd runs GEOADD as a ZADD, which is also its effect.
func geoAdd(x *call) error {
	at := 2
	for at < len(x.args) && (x.is(at, "NX") || x.is(at, "XX") || x.is(at, "CH")) {
		at++
	}
	add := append([]string{"zadd"}, x.args[1:at]...)
	o, _ := (&call{args: add}).addOptions()
	if (len(x.args)-at)%3 != 0 || o.onlyNew && o.onlyOld {
		return errSyntax
	}
	for i := at; i < len(x.args); i += 3 {
		p, err := x.position(i)
		if err != nil {
			return err
		}
		add = append(add, formatFloat(p.score()), x.args[i+2])
	}
	x.args = add
	return x.addScores(o, at)
}

func appendDistance(out *reply, metres float64) {
	out.bulk(strconv.FormatFloat(metres, 'f', 4, 64))
}

func geoDist(x *call) error {
	unit := 1.0
	var err error
	switch {
	case len(x.args) == 5:
		if unit, err = x.unit(4); err != nil {
			return err
		}
	case len(x.args) > 5:
		return errSyntax
	}
	z, err := find[*zset](x, x.args[1])
	if err != nil {
		return err
	}
	p, ok := z.position(x.args[2])
	q, also := z.position(x.args[3])
	if !ok || !also {
		return x.replyNull()
	}
	appendDistance(x.out, p.distance(q)/unit)
	return nil
}

// position returns a member's position. z may be nil.
func (z *zset) position(member string) (position, bool) {
	if z == nil {
		return position{}, false
	}
	score, ok := z.scores.get(member)
	return positionOf(score), ok
}

const geoAlphabet = "0123456789bcdefghjkmnpqrstuvwxyz"

func geoHash(x *call) error {
	return x.eachPosition((*reply).null, func(p position) {
		bits := p.geoBits(90)
		var text [11]byte
		for i := range 10 {
			text[i] = geoAlphabet[bits>>(52-5*(i+1))&31]
		}
		text[10] = geoAlphabet[0] // there are only 52 bits
		x.out.bulk(string(text[:]))
	})
}

func geoPos(x *call) error {
	return x.eachPosition((*reply).nullArray, x.replyPosition)
}

// eachPosition calls f for each member's position, or missing for a member that is not there.
func (x *call) eachPosition(missing func(*reply), f func(position)) error {
	z, err := find[*zset](x, x.args[1])
	if err != nil {
		return err
	}
	x.out.array(len(x.args) - 2)
	for _, member := range x.args[2:] {
		if p, ok := z.position(member); ok {
			f(p)
		} else {
			missing(x.out)
		}
	}
	return nil
}

// replyPosition appends a longitude and a latitude.
func (x *call) replyPosition(p position) {
	x.out.array(2)
	for _, v := range []float64{p.lon, p.lat} {
		text := strconv.FormatFloat(v, 'f', 17, 64)
		text = strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
		if x.out.resp3 {
			x.out.b = append(append(append(x.out.b, ','), text...), '\r', '\n')
		} else {
			x.out.bulk(text)
		}
	}
}
