package pages

import (
	"html/template"
	"net/url"
	"slices"
	"strings"
)

// SignedOut is the page after a sign-out. It loads the applications' front-channel logout URIs.
type SignedOut struct {
	Base
	Title, Text string
	// Next links to where the user goes on, and NextText labels the link; both may be empty. Next may
	// have an application's private-use scheme.
	Next     template.URL
	NextText string
	// Frames are the URLs to load.
	Frames []string
}

func (*SignedOut) template() string { return "signedout.html" }

// policy allows frames from the origins that the page loads, and no others.
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
