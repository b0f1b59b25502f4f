package pages

import (
	"html/template"
	"net/url"
	"slices"
	"strings"
)

// SignedOut is the page after a sign-out. It loads the front-channel logout URIs of applications.
type SignedOut struct {
	Base
	Title, Text string
	// Next is where the user goes on, and NextText the name of it; empty if there is nothing. It may have the
	// private-use scheme of an application.
	Next     template.URL
	NextText string
	// Frames are the URLs to load.
	Frames []string
}

func (*SignedOut) template() string { return "signedout.html" }

// policy allows frames of the origins that are loaded, and of no others.
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
