package pages

import (
	"html/template"
	"net/url"
	"slices"
	"strings"
)

// SignedOut is the page after a sign-out. It loads applications' front-channel logout URIs.
type SignedOut struct {
	Base
	Title, Text string
	// Next is the URL where the user goes on, and NextText its name; empty if there is none. It may
	// have an application's private-use scheme.
	Next     template.URL
	NextText string
	// Frames has the URLs to load.
	Frames []string
}

func (*SignedOut) template() string { return "signedout.html" }

// policy allows frames from the origins that the page loads, and from no others.
func (s *SignedOut) policy() string {
	var origins []string
	for _, frame := range s.Frames {
		if u, err := url.Parse(frame); err == nil {
			origins = append(origins, u.Scheme+"://"+u.Host)
		}
	}
	if len(origins) == 0 {
		return ""
	}
	slices.Sort(origins)
	return "; frame-src " + strings.Join(slices.Compact(origins), " ")
}
