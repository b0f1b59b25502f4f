// Package filter decides which requests go to a destination.
//
// A filter is a JSON object over a request's body, headers, query, path and method, in the notation of
// Hookdeck and Outpost. Compile turns it into groups: one for each place in a request that the filter
// looks at, with everything that it asks of the value there. Match goes through a request once, token
// by token, and keeps nothing but booleans for each group. So it takes time in proportion to the
// request's length, and hardly any memory, whatever the request contains.
//
// A value that is an array matches if one of its elements does. An empty array matches as a missing
// value does.
package filter

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"steward/internal/errs"
)

// The bounds of a filter. The number of terms bounds the time that a value takes.
const (
	MaxBytes = 8 << 10
	MaxDepth = 16
	maxTerms = 100
)

// Filter is a compiled filter. It is safe for concurrent use.
type Filter struct {
	root *group
	// term is the root group's term that decides, and groups the number of groups.
	term, groups int
}

// group has all that a filter asks of the value in one place.
type group struct {
	id       int
	fields   map[string]*group // of an object's members
	specs    []spec
	contains []scalar
	// terms come after those they depend on.
	terms []term
	// absent has the terms for a missing value.
	absent []bool
}

// spec has operators and members that all apply to the same value: the group's, or an element of it.
type spec struct {
	operators []operator
	members   []member
	// absent reports whether it applies to a missing value, and noMembers whether the members do.
	absent, noMembers bool
}

// member says that a term must hold for the member with a name.
type member struct {
	of   *group
	term int
}

// term is something that holds for a value or not.
type term struct {
	kind termKind
	n    int   // the spec or the text in contains
	is   bool  // whether the value must exist
	of   []int // other terms of the group
}

type termKind int

const (
	termSpec termKind = iota
	termContains
	termExists
	termAll
	termAny
	termNot
)

// roots are the parts of a request.
var roots = []string{"body", "headers", "method", "path", "query"}

// Compile compiles a filter. It returns Invalid with every fault, whose locations begin with the given
// one.
func Compile(text []byte, location string) (*Filter, error) {
	c := compiler{}
	if len(text) > MaxBytes {
		return nil, c.faults.Add(location, "expected at most %d bytes", MaxBytes).Err()
	}
	in := json.NewDecoder(strings.NewReader(string(text)))
	in.UseNumber()
	var tree any
	if err := in.Decode(&tree); err != nil {
		return nil, c.faults.Add(location, "expected a JSON object").Err()
	}
	if _, err := in.Token(); !errors.Is(err, io.EOF) {
		return nil, c.faults.Add(location, "expected a single JSON object").Err()
	}
	f := &Filter{root: c.group()}
	if object, ok := tree.(map[string]any); ok {
		f.term = c.object(f.root, object, place{at: location, isRoot: true})
	} else {
		c.faults.Add(location, "expected a JSON object")
	}
	if c.terms > maxTerms {
		c.faults.Add(location, "expected at most %d conditions", maxTerms)
	}
	f.groups = c.groups
	f.root.finish()
	return f, c.faults.Err()
}

// compiler collects what Compile finds.
type compiler struct {
	faults        errs.Faults
	groups, terms int
}

// place is where a part of a filter is.
type place struct {
	at    string
	depth int
	// isRoot and isHeaders tell the objects whose members have restricted names.
	isRoot, isHeaders bool
}

func (p place) below(name string) place { return place{at: p.at + name, depth: p.depth + 1} }

func (c *compiler) group() *group {
	c.groups++
	return &group{id: c.groups - 1, fields: map[string]*group{}}
}

func (c *compiler) add(g *group, t term) int {
	g.terms = append(g.terms, t)
	return len(g.terms) - 1
}

func (c *compiler) addSpec(g *group, s spec) int {
	g.specs = append(g.specs, s)
	return c.add(g, term{kind: termSpec, n: len(g.specs) - 1})
}

// value compiles what a filter asks of a value, and returns the term.
func (c *compiler) value(g *group, v any, p place) int {
	if p.depth > MaxDepth {
		c.faults.Add(p.at, "expected at most %d levels", MaxDepth)
		return c.add(g, term{kind: termAll})
	}
	if object, ok := v.(map[string]any); ok {
		return c.object(g, object, p)
	}
	return c.addSpec(g, spec{operators: []operator{c.operator("$eq", v, p.at)}})
}

func (c *compiler) object(g *group, object map[string]any, p place) int {
	var all []int
	var s spec
	for _, name := range slices.Sorted(maps.Keys(object)) {
		v := object[name]
		below := p.below("." + name)
		switch {
		case name == "$and" || name == "$or":
			all = append(all, c.list(g, name, v, p))
		case name == "$not":
			below.isRoot = p.isRoot
			below.isHeaders = p.isHeaders
			all = append(all, c.not(g, c.within(g, v, below)))
		case p.isRoot && !slices.Contains(roots, name):
			c.faults.Add(below.at, "expected one of %s, $and, $or, $not", strings.Join(roots, ", "))
		case !strings.HasPrefix(name, "$"):
			c.terms++
			if p.isHeaders && strings.ToLower(name) != name {
				c.faults.Add(below.at, "expected a name in lower case")
			}
			below.isHeaders = p.isRoot && name == "headers"
			of := g.fields[name]
			if of == nil {
				of = c.group()
				g.fields[name] = of
			}
			s.members = append(s.members, member{of, c.value(of, v, below)})
		case slices.Contains(wholes, name):
			c.terms++
			all = append(all, c.whole(g, name, v, below.at))
		default:
			c.terms++
			s.operators = append(s.operators, c.operator(name, v, below.at))
		}
	}
	if len(s.operators)+len(s.members) > 0 {
		all = append(all, c.addSpec(g, s))
	}
	if len(all) == 1 {
		return all[0]
	}
	return c.add(g, term{kind: termAll, of: all})
}

// wholes are the operators on a value as a whole, rather than on an element of it.
var wholes = []string{"$ne", "$nin", "$exist", "$contains"}

// whole compiles one of wholes.
func (c *compiler) whole(g *group, name string, v any, at string) int {
	switch name {
	case "$ne":
		return c.not(g, c.addSpec(g, spec{operators: []operator{c.operator("$eq", v, at)}}))
	case "$nin":
		return c.not(g, c.addSpec(g, spec{operators: []operator{c.operator("$in", v, at)}}))
	case "$exist":
		is, ok := v.(bool)
		c.faults.Check(ok, at, "expected true or false")
		return c.add(g, term{kind: termExists, is: is})
	}
	g.contains = append(g.contains, c.scalar(v, at))
	return c.add(g, term{kind: termContains, n: len(g.contains) - 1})
}

func (c *compiler) not(g *group, of int) int { return c.add(g, term{kind: termNot, of: []int{of}}) }

// list compiles $and and $or.
func (c *compiler) list(g *group, name string, v any, p place) int {
	parts, ok := v.([]any)
	if !ok || len(parts) == 0 {
		c.faults.Add(p.at+"."+name, "expected a list with at least one item")
	}
	kind := termAll
	if name == "$or" {
		kind = termAny
	}
	of := make([]int, len(parts))
	for i, part := range parts {
		below := p.below(fmt.Sprintf(".%s[%d]", name, i))
		below.isRoot = p.isRoot
		below.isHeaders = p.isHeaders
		of[i] = c.within(g, part, below)
	}
	return c.add(g, term{kind: kind, of: of})
}

// within compiles a part of $and, $or or $not.
func (c *compiler) within(g *group, v any, p place) int {
	c.terms++
	if _, isObject := v.(map[string]any); p.isRoot && !isObject {
		c.faults.Add(p.at, "expected a JSON object")
		return c.add(g, term{kind: termAll})
	}
	return c.value(g, v, p)
}

// finish computes what holds for missing values.
func (g *group) finish() {
	for _, of := range g.fields {
		of.finish()
	}
	o := newOutcome(g)
	for i := range g.specs {
		s := &g.specs[i]
		s.noMembers = !slices.ContainsFunc(s.members, func(m member) bool { return !m.of.absent[m.term] })
		s.absent = len(s.operators) == 0 && s.noMembers
		o.specs[i] = s.absent
	}
	g.absent = make([]bool, len(g.terms))
	g.decide(g.absent, o, false)
}
