package filter

import (
	"bytes"
	"errors"
	"io"
	"net/url"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"steward/internal/encode"
)

// Event is a request to match.
type Event struct {
	Method, Query string
	// Headers is a JSON object.
	Headers string
	Body    []byte

	// isText reports whether the body is known not to be JSON.
	isText bool
}

// part returns a part of the request as JSON, or nil if it is missing.
func (e *Event) part(name string) []byte {
	switch name {
	case "method":
		return encode.String(nil, e.Method)
	case "path":
		return []byte(`"/"`) // what follows the webhook's URL
	case "headers":
		return []byte(e.Headers)
	case "query":
		return queryJSON(e.Query)
	}
	if e.isText {
		return nil
	}
	return e.Body
}

// queryJSON returns a query as an object. A name that is there several times has an array.
func queryJSON(query string) []byte {
	values, _ := url.ParseQuery(query) // as far as it is well-formed
	text := []byte{'{'}
	for name, all := range values {
		text = append(encode.String(text, strings.ToValidUTF8(name, "\uFFFD")), ':')
		if len(all) > 1 {
			text = append(text, '[')
		}
		for i, value := range all {
			if i > 0 {
				text = append(text, ',')
			}
			text = encode.String(text, strings.ToValidUTF8(value, "\uFFFD"))
		}
		if len(all) > 1 {
			text = append(text, ']')
		}
		text = append(text, ',')
	}
	return append(bytes.TrimSuffix(text, []byte{','}), '}')
}

// Match reports whether a request matches. It is not safe for concurrent use of the same event.
func (f *Filter) Match(e *Event) bool {
	r := newRun(f)
	for name, g := range f.root.fields {
		text := e.part(name)
		if len(text) == 0 {
			continue
		}
		if err := r.document(g, text); err == nil {
			r.seen[g.id] = true
		} else if name == "body" {
			e.isText = true
		}
	}
	o := newOutcome(f.root)
	r.members(f.root, o)
	f.root.decide(r.terms[f.root.id], o, true)
	return r.terms[f.root.id][f.term]
}

// outcome has what a value's own tokens tell about a group.
type outcome struct {
	specs    []bool
	contains []bool
	// equals is like contains, for an element of an array: whether it is the value that the array must
	// contain.
	equals []bool
}

func newOutcome(g *group) *outcome {
	n, m := len(g.specs), len(g.contains)
	all := make([]bool, n+2*m)
	return &outcome{specs: all[:n:n], contains: all[n : n+m : n+m], equals: all[n+m:]}
}

// run is one evaluation. A group's buffers are used for one value at a time: the values inside that one
// belong to other groups, except for the elements of arrays, which have outcomes of their own.
type run struct {
	in       *jsontext.Decoder
	outcomes []*outcome
	// terms has the terms of the last value, and seen whether the last object had it.
	terms [][]bool
	seen  []bool
}

func newRun(f *Filter) *run {
	r := &run{outcomes: make([]*outcome, f.groups), terms: make([][]bool, f.groups), seen: make([]bool, f.groups)}
	r.prepare(f.root)
	return r
}

func (r *run) prepare(g *group) {
	r.outcomes[g.id] = newOutcome(g)
	r.terms[g.id] = make([]bool, len(g.terms))
	for _, of := range g.fields {
		r.prepare(of)
	}
}

// document evaluates a whole JSON text.
func (r *run) document(g *group, text []byte) error {
	r.in = jsontext.NewDecoder(bytes.NewBuffer(text), jsontext.AllowDuplicateNames(true))
	if err := r.value(g); err != nil {
		return err
	}
	if _, err := r.in.ReadToken(); !errors.Is(err, io.EOF) {
		return errors.New("filter: more than one value")
	}
	return nil
}

// value reads a value and decides the group's terms.
func (r *run) value(g *group) error {
	o := r.outcomes[g.id]
	if err := r.read(g, o); err != nil {
		return err
	}
	g.decide(r.terms[g.id], o, true)
	return nil
}

// read reads a value, which may be an element of the group's.
func (r *run) read(g *group, o *outcome) error {
	switch r.in.PeekKind() {
	case '{':
		return r.object(g, o)
	case '[':
		return r.array(g, o)
	}
	raw, err := r.in.ReadValue()
	if err != nil {
		return err
	}
	s, err := scalarOf(raw)
	if err != nil {
		return err
	}
	for i := range g.specs {
		o.specs[i] = g.specs[i].matches(&s)
	}
	for i, want := range g.contains {
		o.contains[i] = s.kind == '"' && want.kind == '"' && strings.Contains(s.text, want.text)
		o.equals[i] = s == want
	}
	return nil
}

func scalarOf(raw jsontext.Value) (scalar, error) {
	switch kind := raw.Kind(); kind {
	case '0':
		return number(string(raw)), nil
	case '"':
		text, err := jsontext.AppendUnquote(nil, raw)
		return scalar{kind: '"', text: string(text)}, err
	default:
		return scalar{kind: byte(kind)}, nil
	}
}

// matches reports whether a spec applies to a scalar, which has no members.
func (s *spec) matches(v *scalar) bool {
	for i := range s.operators {
		if !s.operators[i].matches(v) {
			return false
		}
	}
	return s.noMembers
}

func (r *run) object(g *group, o *outcome) error {
	if len(g.fields) == 0 {
		clear(o.contains)
		clear(o.equals)
		clear(o.specs) // every spec has operators
		return r.in.SkipValue()
	}
	if _, err := r.in.ReadToken(); err != nil {
		return err
	}
	for _, of := range g.fields {
		r.seen[of.id] = false
	}
	for r.in.PeekKind() == '"' {
		name, err := r.in.ReadValue()
		if err != nil {
			return err
		}
		of, err := g.field(name)
		if err != nil {
			return err
		}
		if of == nil {
			if err := r.in.SkipValue(); err != nil {
				return err
			}
			continue
		}
		if err := r.value(of); err != nil {
			return err
		}
		r.seen[of.id] = true
	}
	if _, err := r.in.ReadToken(); err != nil {
		return err
	}
	r.members(g, o)
	return nil
}

// field returns the group of a member, or nil if the filter does not look at it.
func (g *group) field(raw jsontext.Value) (*group, error) {
	if bytes.IndexByte(raw, '\\') < 0 {
		return g.fields[string(raw[1:len(raw)-1])], nil
	}
	name, err := jsontext.AppendUnquote(nil, raw)
	return g.fields[string(name)], err
}

// members decides what applies to an object whose members were read.
func (r *run) members(g *group, o *outcome) {
	clear(o.contains)
	clear(o.equals)
	for i := range g.specs {
		s := &g.specs[i]
		o.specs[i] = len(s.operators) == 0
		for _, m := range s.members {
			terms := m.of.absent
			if r.seen[m.of.id] {
				terms = r.terms[m.of.id]
			}
			o.specs[i] = o.specs[i] && terms[m.term]
		}
	}
}

func (r *run) array(g *group, o *outcome) error {
	clear(o.specs)
	clear(o.contains)
	clear(o.equals)
	if len(g.specs)+len(g.contains) == 0 {
		return r.in.SkipValue()
	}
	if _, err := r.in.ReadToken(); err != nil {
		return err
	}
	var element *outcome
	for kind := r.in.PeekKind(); kind != ']' && kind != 0; kind = r.in.PeekKind() {
		if element == nil {
			element = newOutcome(g)
		}
		if err := r.read(g, element); err != nil {
			return err
		}
		for i, ok := range element.specs {
			o.specs[i] = o.specs[i] || ok
		}
		for i, ok := range element.equals {
			o.contains[i] = o.contains[i] || ok
		}
	}
	if _, err := r.in.ReadToken(); err != nil {
		return err
	}
	if element == nil {
		for i := range g.specs {
			o.specs[i] = g.specs[i].absent
		}
	}
	return nil
}

// decide computes a group's terms.
func (g *group) decide(terms []bool, o *outcome, exists bool) {
	for i := range g.terms {
		t := &g.terms[i]
		switch t.kind {
		case termSpec:
			terms[i] = o.specs[t.n]
		case termContains:
			terms[i] = o.contains[t.n]
		case termExists:
			terms[i] = exists == t.is
		case termNot:
			terms[i] = !terms[t.of[0]]
		case termAll, termAny:
			terms[i] = t.kind == termAll
			for _, n := range t.of {
				if terms[n] != terms[i] {
					terms[i] = !terms[i]
					break
				}
			}
		}
	}
}
