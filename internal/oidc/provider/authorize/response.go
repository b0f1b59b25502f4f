package authorize

import (
	"net/http"
	"net/url"
	"strings"

	"steward/internal/oidc/provider/flow"
	"steward/internal/oidc/provider/oauth"
	"steward/internal/oidc/provider/pages"
)

type recipient struct {
	uri   string
	state string
	// mode is flow.FormPost; otherwise the response goes into the URI's query.
	mode string
}

// recipientOf returns the recipient for an error. The request may be invalid.
func recipientOf(redirectURI string, form url.Values) recipient {
	to := recipient{uri: redirectURI, state: form.Get("state")}
	if mode := form.Get("response_mode"); mode == flow.FormPost && acceptsForms(redirectURI) {
		to.mode = mode
	}
	return to
}

// acceptsForms reports whether a browser can send a form to a redirect URI. It cannot send one to an
// application with a private-use scheme.
func acceptsForms(redirectURI string) bool {
	return strings.HasPrefix(redirectURI, "https:") || strings.HasPrefix(redirectURI, "http:")
}

// refuse sends the browser to the client with an error.
func (h *Handler) refuse(w http.ResponseWriter, r *http.Request, req *flow.Request, e *oauth.Error) error {
	return h.sendError(w, r, recipient{req.RedirectURI, req.State, req.ResponseMode}, e)
}

func (h *Handler) sendError(w http.ResponseWriter, r *http.Request, to recipient, e *oauth.Error) error {
	return h.send(w, r, to, url.Values{"error": {e.Code}, "error_description": {e.Description}})
}

// send sends the browser to the client with an authorization response.
func (h *Handler) send(w http.ResponseWriter, r *http.Request, to recipient, params url.Values) error {
	params.Set("iss", h.Issuer)
	if to.state != "" {
		params.Set("state", to.state)
	}
	if to.mode == flow.FormPost {
		return h.Pages.Render(w, r, http.StatusOK, pages.NewFormPost(to.uri, params))
	}
	location, err := oauth.AddQuery(to.uri, params)
	if err != nil {
		return err
	}
	http.Redirect(w, r, location, http.StatusSeeOther) // 303 turns a POST into a GET, so that the browser does not pass the form on
	return nil
}
