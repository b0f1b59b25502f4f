package redis

import (
	"cmp"
	"slices"
	"strings"
)

// geoQuery is a search for positions.
type geoQuery struct {
	set    *zset
	center position
	// from and by report whether we know the center and the area's size.
	from, by bool
	// radius is for a circle. width and height are for a box, if box is set. All are in metres.
	radius, width, height float64
	box                   bool
	// unit is the unit for distances, in metres.
	unit float64

	withDist, withHash, withCoord, any bool
	count                              int64
	// order is 1 for ASC, -1 for DESC.
	order     int
	store     bool
	target    string
	storeDist bool
}

// found is a member inside the area.
type found struct {
	scored
	distance float64
}

func geoSearch(x *call) error { return x.search(x.args[1], 2, geoQuery{}) }

func geoSearchStore(x *call) error {
	return x.search(x.args[2], 3, geoQuery{store: true, target: x.args[1]})
}

func geoRadius(x *call) error { return x.search(x.args[1], 6, geoQuery{from: true, by: true}) }

func geoRadiusByMember(x *call) error { return x.search(x.args[1], 5, geoQuery{from: true, by: true}) }

// search runs a search whose options begin at an argument.
func (x *call) search(key string, options int, q geoQuery) (err error) {
	if q.set, err = find[*zset](x, key); err != nil {
		return err
	}
	if q.from {
		if err := x.radiusArgs(&q, options); err != nil {
			return err
		}
	}
	for i := options; i < len(x.args); {
		n, err := x.geoOption(&q, i)
		if err != nil {
			return err
		}
		i += n
	}
	if err := x.checkQuery(q); err != nil {
		return err
	}
	return x.replyFound(q, q.run())
}

// radiusArgs reads the arguments before the options in GEORADIUS and GEORADIUSBYMEMBER. Like Redis, the
// latter ignores them if there is no set.
func (x *call) radiusArgs(q *geoQuery, options int) (err error) {
	if options == 5 && q.set == nil {
		return nil
	}
	if options == 6 {
		q.center, err = x.position(2)
	} else {
		err = x.center(q, 2)
	}
	if err != nil {
		return err
	}
	return x.radius(q, options-2)
}

// center reads the member at the center. Without a set there is no center, and the search finds
// nothing.
func (x *call) center(q *geoQuery, i int) error {
	p, ok := q.set.position(x.args[i])
	if q.set != nil && !ok {
		return errorf("ERR could not decode requested zset member")
	}
	q.center = p
	return nil
}

// radius reads a radius and its unit.
func (x *call) radius(q *geoQuery, i int) error {
	v, ok := parseFloat(x.args[i])
	if !ok {
		return errorf("ERR need numeric radius")
	}
	if v < 0 {
		return errorf("ERR radius cannot be negative")
	}
	unit, err := x.unit(i + 1)
	if err != nil {
		return err
	}
	q.unit = unit
	q.radius = v * unit
	return nil
}

// boxArgs reads a box's width, height and unit.
func (x *call) boxArgs(q *geoQuery, i int) error {
	width, ok := parseFloat(x.args[i])
	if !ok {
		return errorf("ERR need numeric width")
	}
	height, ok := parseFloat(x.args[i+1])
	if !ok {
		return errorf("ERR need numeric height")
	}
	if width < 0 || height < 0 {
		return errorf("ERR height or width cannot be negative")
	}
	unit, err := x.unit(i + 2)
	if err != nil {
		return err
	}
	q.unit = unit
	q.width = width * unit
	q.height = height * unit
	q.box = true
	return nil
}

// geoOption reads an option and returns how many arguments it took.
func (x *call) geoOption(q *geoQuery, i int) (int, error) {
	left := len(x.args) - i - 1
	switch word := strings.ToUpper(x.args[i]); {
	case word == "WITHDIST":
		q.withDist = true
	case word == "WITHHASH":
		q.withHash = true
	case word == "WITHCOORD":
		q.withCoord = true
	case word == "ANY":
		q.any = true
	case word == "ASC":
		q.order = 1
	case word == "DESC":
		q.order = -1
	case word == "COUNT" && left > 0:
		n, err := x.int(i + 1)
		if err != nil {
			return 0, err
		}
		if n <= 0 {
			return 0, errorf("ERR COUNT must be > 0")
		}
		q.count = n
		return 2, nil
	case strings.HasPrefix(x.cmd.name, "geosearch"):
		return x.searchOption(q, word, i, left)
	case (word == "STORE" || word == "STOREDIST") && left > 0 && !strings.HasSuffix(x.cmd.name, "_ro"):
		q.store = true
		q.target = x.args[i+1]
		q.storeDist = word == "STOREDIST"
		return 2, nil
	default:
		return 0, errSyntax
	}
	return 1, nil
}

// searchOption reads an option that only GEOSEARCH and GEOSEARCHSTORE have.
func (x *call) searchOption(q *geoQuery, word string, i, left int) (n int, err error) {
	switch {
	case word == "FROMMEMBER" && left > 0 && !q.from:
		q.from = true
		return 2, x.center(q, i+1)
	case word == "FROMLONLAT" && left > 1 && !q.from:
		q.from = true
		q.center, err = x.position(i + 1)
		return 3, err
	case word == "BYRADIUS" && left > 1 && !q.by:
		q.by = true
		return 3, x.radius(q, i+1)
	case word == "BYBOX" && left > 2 && !q.by:
		q.by = true
		return 4, x.boxArgs(q, i+1)
	case word == "STOREDIST" && q.store:
		q.storeDist = true
		return 1, nil
	}
	return 0, errSyntax
}

// checkQuery returns an error if options are missing or exclude each other.
func (x *call) checkQuery(q geoQuery) error {
	switch {
	case q.store && (q.withDist || q.withHash || q.withCoord):
		name := "STORE option in GEORADIUS"
		if x.cmd.name == "geosearchstore" {
			name = "GEOSEARCHSTORE"
		}
		return errorf("ERR %s is not compatible with WITHDIST, WITHHASH and WITHCOORD options", name)
	case !q.from:
		return errorf("ERR exactly one of FROMMEMBER or FROMLONLAT can be specified for %s", x.args[0])
	case !q.by:
		return errorf("ERR exactly one of BYRADIUS and BYBOX can be specified for %s", x.args[0])
	case q.any && q.count == 0:
		return errorf("ERR the ANY argument requires COUNT argument")
	}
	return nil
}

// within returns a position's distance from the center, and whether it is in the area.
func (q geoQuery) within(p position) (float64, bool) {
	d := q.center.distance(p)
	if !q.box {
		return d, d <= q.radius
	}
	north := position{p.lon, q.center.lat}.distance(p)
	east := position{q.center.lon, p.lat}.distance(p)
	return d, north <= q.height/2 && east <= q.width/2
}

// run returns the members in the area, in the query's order, or else by score.
func (q geoQuery) run() []found {
	var all []found
	if q.set == nil {
		return nil
	}
	q.set.order.Scan(func(m scored) bool {
		if d, ok := q.within(positionOf(m.score)); ok {
			all = append(all, found{m, d})
		}
		return !q.any || int64(len(all)) < q.count
	})
	if q.order == 0 && q.count > 0 && !q.any {
		q.order = 1
	}
	if q.order != 0 {
		slices.SortStableFunc(all, func(a, b found) int { return q.order * cmp.Compare(a.distance, b.distance) })
	}
	if q.count > 0 {
		all = all[:min(int64(len(all)), q.count)]
	}
	return all
}

// replyFound stores the members found, or replies with them.
func (x *call) replyFound(q geoQuery, all []found) error {
	if q.store {
		z := newZSet()
		for _, m := range all {
			if q.storeDist {
				m.score = m.distance / q.unit
			}
			x.collect(z, m.scored)
		}
		x.storeResult(q.target, z)
		return x.replyLen(len(all))
	}
	x.out.array(len(all))
	extra := 0
	for _, with := range []bool{q.withDist, q.withHash, q.withCoord} {
		if with {
			extra++
		}
	}
	for _, m := range all {
		if extra > 0 {
			x.out.array(1 + extra)
		}
		x.out.bulk(m.member)
		if q.withDist {
			appendDistance(x.out, m.distance/q.unit)
		}
		if q.withHash {
			x.out.int(int64(m.score))
		}
		if q.withCoord {
			x.replyPosition(positionOf(m.score))
		}
	}
	return nil
}
