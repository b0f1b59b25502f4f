package pages

import (
	"html/template"
	"maps"
	"net/url"
	"slices"
	"strings"
)

// FormPost is the page that sends an authorization response to a client as a form (OAuth 2.0 Form Post
// Response Mode). It sends itself, or with a button where scripts are off.
type FormPost struct {
	Base
	Action string
	Fields []Field
}

// Field is a hidden field of a form.
type Field struct{ Name, Value string }

// NewFormPost returns a page that sends the parameters to a URI.
func NewFormPost(uri string, params url.Values) *FormPost {
	v := &FormPost{Action: uri}
	for _, name := range slices.Sorted(maps.Keys(params)) {
		v.Fields = append(v.Fields, Field{name, params.Get(name)})
	}
	return v
}

func (*FormPost) template() string { return "formpost.html" }

// sendForm is the script of the page.
const sendForm = "document.forms[0].submit()"

// Script returns the script of the page.
func (*FormPost) Script() template.JS { return sendForm }

// policy allows the script of the page and its form. It names no host, because browsers apply
// form-action to the redirects of the client as well, and those may lead to another of its hosts.
func (v *FormPost) policy() string {
	sources := "https:"
	if strings.HasPrefix(v.Action, "http:") { // an application on this device
		sources = "http: https:"
	}
	return "; script-src " + hashSource(sendForm) + "; form-action " + sources
}
