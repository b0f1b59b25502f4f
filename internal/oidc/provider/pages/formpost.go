package pages

import (
	"html/template"
	"maps"
	"net/url"
	"slices"
	"strings"
)

// FormPost is the page that delivers an authorization response to a client as a form (OAuth 2.0 Form Post
// Response Mode). It submits itself; without scripts, it shows a button.
type FormPost struct {
	Base
	Action string
	Fields []Field
}

// Field is a hidden field of a form.
type Field struct{ Name, Value string }

// NewFormPost returns a page that sends params to uri.
func NewFormPost(uri string, params url.Values) *FormPost {
	v := &FormPost{Action: uri}
	for _, name := range slices.Sorted(maps.Keys(params)) {
		v.Fields = append(v.Fields, Field{name, params.Get(name)})
	}
	return v
}

func (*FormPost) template() string { return "formpost.html" }

const sendForm = "document.forms[0].submit()"

// Script returns the page's script.
func (*FormPost) Script() template.JS { return sendForm }

// policy allows the page's script and its form. It names no host, because browsers apply form-action to
// the client's redirects too, and those may lead to another host.
func (v *FormPost) policy() string {
	sources := "https:"
	if strings.HasPrefix(v.Action, "http:") { // an application on this device
		sources = "http: https:"
	}
	return "; script-src " + hashSource(sendForm) + "; form-action " + sources
}
