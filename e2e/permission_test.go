package e2e

import (
	"slices"
	"strings"
	"sync"
	"testing"

	"steward/e2e/installation"
)

// right is who may use a route.
type right struct {
	scope string
	roles []string
	// project says that callers confined to a project may, user that OAuth clients that act as
	// themselves may not.
	project, user bool
	// body is sent with the request.
	body any
	// own says that ids in the path are of the caller's own organization, whatever they are.
	own bool
}

var (
	everybody = []string{"owner", "admin", "member", "viewer"}
	writers   = everybody[:3]
	managers  = everybody[:2]
	owners    = everybody[:1]
	nothing   = object{}
	aBucket   = object{"resources": []object{{"type": "s3", "name": "none"}}}
	aQuery    = object{"query": "SELECT 1"}
	aValue    = object{"ttl_ms": 0}
	aToken    = object{"uses": 0} // invalid
	aHook     = object{"type": "url", "config": object{"url": "https://example.com"}}
	aReplay   = object{"since": "2026-01-01T00:00:00Z"}
)

// rights has an entry for each operation of the API. A new route needs one.
var rights = map[string]right{
	"GET /cli/auth/user":                  {"account:read", everybody, true, true, nil, false},
	"GET /cli/organization":               {"account:read", everybody, true, false, nil, false},
	"GET /cli/project":                    {"account:read", everybody, true, false, nil, false},
	"POST /cli/organization":              {"account:write", everybody, false, true, nothing, false},
	"PUT /cli/organization/{id}":          {"member:write", owners, false, false, nothing, false},
	"DELETE /cli/organization/{id}":       {"member:write", owners, false, false, nil, false},
	"POST /cli/organization/{id}/restore": {"member:write", owners, false, false, nil, false},
	"POST /cli/project":                   {"resource:write", writers, false, false, nothing, false},
	"DELETE /cli/project/{id}":            {"resource:write", writers, false, false, nil, false},
	"GET /audit":                          {"member:read", managers, false, false, nil, false},
	"GET /search":                         {"account:read", everybody, true, false, nil, false},
	"GET /status":                         {"account:read", everybody, false, false, nil, false},

	"GET /oidc/org/members":                      {"member:read", managers, false, false, nil, false},
	"POST /oidc/org/members":                     {"member:write", managers, false, false, nothing, false},
	"PUT /oidc/org/members/{id}":                 {"member:write", managers, false, false, nothing, false},
	"POST /oidc/org/members/{id}/reset-password": {"member:write", managers, false, false, nil, false},
	"POST /oidc/org/members/{id}/invite":         {"member:write", managers, false, false, nil, false},
	"DELETE /oidc/org/members/{id}/factors":      {"member:write", owners, false, false, nil, false},
	"DELETE /oidc/org/members/{id}":              {"member:write", managers, false, false, nil, false},

	"GET /oidc/clients":                         {"oauth:read", everybody, false, false, nil, false},
	"POST /oidc/clients":                        {"oauth:write", managers, false, false, nothing, false},
	"GET /oidc/clients/activity":                {"oauth:read", everybody, false, false, nil, false},
	"GET /oidc/clients/{id}":                    {"oauth:read", everybody, false, false, nil, false},
	"PUT /oidc/clients/{id}":                    {"oauth:write", managers, false, false, nothing, false},
	"DELETE /oidc/clients/{id}":                 {"oauth:write", managers, false, false, nil, false},
	"POST /oidc/clients/{id}/rotate-secret":     {"oauth:write", managers, false, false, nil, false},
	"GET /oidc/clients/{id}/activity":           {"oauth:read", everybody, false, false, nil, false},
	"GET /oidc/clients/{id}/users":              {"oauth:write", managers, false, false, nil, false},
	"DELETE /oidc/clients/{id}/users":           {"oauth:write", managers, false, false, nil, false},
	"DELETE /oidc/clients/{id}/users/{user_id}": {"oauth:write", managers, false, false, nil, false},
	"GET /oidc/user/consent":                    {"account:read", everybody, true, true, nil, false},
	"DELETE /oidc/user/consent/{client_id}":     {"account:write", everybody, true, true, nil, false},
	"GET /oidc/scopes":                          {"oauth:read", everybody, false, false, nil, false},
	"GET /oidc/keys":                            {"oauth:read", managers, false, false, nil, false},
	"POST /oidc/keys/rotate":                    {"oauth:write", managers, false, false, nil, false},
	"GET /oidc/upstream":                        {"oauth:read", managers, false, false, nil, false},
	"POST /oidc/upstream":                       {"oauth:write", managers, false, false, nothing, false},
	"GET /oidc/upstream/{id}":                   {"oauth:read", managers, false, false, nil, false},
	"PUT /oidc/upstream/{id}":                   {"oauth:write", managers, false, false, nothing, false},
	"DELETE /oidc/upstream/{id}":                {"oauth:write", managers, false, false, nil, false},
	"GET /oidc/registration-token":              {"oauth:read", managers, false, false, nil, false},
	"POST /oidc/registration-token":             {"oauth:write", managers, false, false, aToken, false},
	"DELETE /oidc/registration-token/{id}":      {"oauth:write", managers, false, false, nil, false},

	"POST /cli/apikey":        {"apikey:write", writers, false, true, nothing, false},
	"GET /cli/apikey":         {"apikey:read", everybody, false, true, nil, false},
	"GET /cli/apikey/{id}":    {"apikey:read", everybody, false, true, nil, false},
	"DELETE /cli/apikey/{id}": {"apikey:write", writers, false, true, nil, false},

	"GET /cli/eval":           {"eval:read", everybody, true, false, nil, false},
	"GET /cli/eval/{id}":      {"eval:read", everybody, true, false, nil, false},
	"PUT /cli/eval/{id}":      {"eval:write", writers, true, false, nothing, true},
	"POST /cli/devmode/eval":  {"eval:write", writers, true, false, nothing, false},
	"GET /cli/eval-run":       {"eval:read", everybody, true, false, nil, false},
	"GET /cli/eval-run/stats": {"eval:read", everybody, true, false, nil, false},
	"GET /cli/eval-run/{id}":  {"eval:read", everybody, true, false, nil, false},
	"POST /evalrun":           {"eval:write", writers, true, false, nothing, false},
	"PUT /evalrun":            {"eval:write", writers, true, false, nothing, false},

	"GET /cli/region": {"resource:read", everybody, true, false, nil, false},

	"GET /resource":                                  {"resource:read", everybody, false, false, nil, false},
	"GET /resource/{orgId}/{region}":                 {"resource:read", everybody, false, false, nil, false},
	"POST /resource/{orgId}/{region}":                {"resource:write", writers, false, false, aBucket, false},
	"DELETE /resource/{orgId}/{region}":              {"resource:write", writers, false, false, aBucket, false},
	"GET /resource/{orgId}/{region}/{name}/tables":   {"resource:read", everybody, false, false, nil, false},
	"POST /resource/{orgId}/{region}/{name}/query":   {"resource:write", writers, false, false, aQuery, false},
	"GET /resource/{orgId}/{region}/{name}/keys":     {"resource:read", everybody, false, false, nil, false},
	"GET /resource/{orgId}/{region}/{name}/value":    {"resource:write", writers, false, false, nil, false},
	"PUT /resource/{orgId}/{region}/{name}/value":    {"resource:write", writers, false, false, aValue, false},
	"DELETE /resource/{orgId}/{region}/{name}/value": {"resource:write", writers, false, false, nil, false},
	"POST /resource/{orgId}/{region}/{name}/rotate":  {"resource:write", writers, false, false, nil, false},
	"GET /storage/objects/{bucket}":                  {"storage:read", everybody, false, false, nil, false},
	"DELETE /storage/objects/{bucket}":               {"storage:write", writers, false, false, nil, false},
	"GET /storage/folders/{bucket}":                  {"storage:read", everybody, false, false, nil, false},
	"GET /storage/presign/{bucket}":                  {"storage:read", everybody, false, false, nil, false},
	"GET /storage/stats/{bucket}":                    {"storage:read", everybody, false, false, nil, false},
	"GET /storage/analytics":                         {"storage:read", everybody, false, false, nil, false},
	"GET /bucket/config/{bucket}":                    {"storage:read", everybody, false, false, nil, false},
	"PUT /bucket/config/{bucket}":                    {"storage:write", writers, false, false, nothing, false},
	"DELETE /bucket/config/{bucket}":                 {"storage:write", writers, false, false, nil, false},

	"GET /thread":         {"thread:read", everybody, true, false, nil, false},
	"GET /thread/{id}":    {"thread:read", everybody, true, false, nil, false},
	"PUT /thread/{id}":    {"thread:write", writers, true, false, nothing, true},
	"DELETE /thread/{id}": {"thread:write", writers, true, false, nil, false},
	"GET /session":        {"thread:read", everybody, true, false, nil, false},
	"GET /session/{id}":   {"thread:read", everybody, true, false, nil, false},
	"POST /session":       {"thread:write", writers, true, false, nothing, false},
	"PUT /session":        {"thread:write", writers, true, false, nothing, false},

	"POST /webhook/create":                                           {"webhook:write", writers, false, false, nothing, false},
	"GET /webhook/get/{webhookId}":                                   {"webhook:read", everybody, false, false, nil, false},
	"GET /webhook/list":                                              {"webhook:read", everybody, false, false, nil, false},
	"PUT /webhook/update/{webhookId}":                                {"webhook:write", writers, false, false, nothing, false},
	"POST /webhook/rotate-url/{webhookId}":                           {"webhook:write", writers, false, false, nil, false},
	"DELETE /webhook/delete/{webhookId}":                             {"webhook:write", writers, false, false, nil, false},
	"POST /webhook/destination-create/{webhookId}":                   {"webhook:write", writers, false, false, aHook, false},
	"GET /webhook/destination-list/{webhookId}":                      {"webhook:read", everybody, false, false, nil, false},
	"PUT /webhook/destination-update/{webhookId}/{destinationId}":    {"webhook:write", writers, false, false, nothing, false},
	"DELETE /webhook/destination-delete/{webhookId}/{destinationId}": {"webhook:write", writers, false, false, nil, false},
	"POST /webhook/destination-test/{webhookId}/{destinationId}":     {"webhook:write", writers, false, false, nil, false},
	"POST /webhook/destination-recover/{webhookId}/{destinationId}":  {"webhook:write", writers, false, false, nil, false},
	"GET /webhook/receipt-list/{webhookId}":                          {"webhook:read", everybody, false, false, nil, false},
	"GET /webhook/receipt-get/{webhookId}/{receiptId}":               {"webhook:read", everybody, false, false, nil, false},
	"GET /webhook/receipt-payload/{webhookId}/{receiptId}":           {"webhook:read", everybody, false, false, nil, false},
	"GET /webhook/delivery-list/{webhookId}":                         {"webhook:read", everybody, false, false, nil, false},
	"POST /webhook/delivery-retry/{webhookId}/{deliveryId}":          {"webhook:write", writers, false, false, nothing, false},
	"POST /webhook/replay/{webhookId}":                               {"webhook:write", writers, false, false, aReplay, false},
	"GET /webhook/replay/{webhookId}":                                {"webhook:read", everybody, false, false, nil, false},
	"GET /webhook/replay/{webhookId}/{replayId}":                     {"webhook:read", everybody, false, false, nil, false},
	"DELETE /webhook/replay/{webhookId}/{replayId}":                  {"webhook:write", writers, false, false, nil, false},
	"GET /webhook/tail":                                              {"webhook:read", everybody, false, false, nil, false},
	"GET /webhook/tail/{webhookId}":                                  {"webhook:read", everybody, false, false, nil, false},
	"GET /webhook/analytics/org":                                     {"webhook:read", everybody, false, false, nil, false},
	"GET /webhook/analytics/org/timeseries":                          {"webhook:read", everybody, false, false, nil, false},
}

// presenter presents a credential in one way.
type presenter struct {
	name string
	// authorization returns the Authorization header for a route that needs a scope.
	authorization func(scope string) string
	// proof makes the DPoP proof of a request; it is nil for none.
	proof *installation.Prover
	// want returns the status that a route must have with a part of the error, or with the beginning of
	// the challenge if it is 401. It returns 0 if the caller is allowed to use the route.
	want func(r right) (status int, detail string)
	// exact says that a GET must be 200, which shows that the ids exist.
	exact bool
	// other says that the caller is of another organization.
	other bool
}

// TestEveryRouteChecksEveryCaller uses every operation of the API in all ways.
func TestEveryRouteChecksEveryCaller(t *testing.T) {
	t.Parallel()
	installation.EachWithOwner(t, func(t *testing.T, s *installation.Steward) {
		m := newMatrix(s)
		var doc struct{ Paths map[string]map[string]any }
		s.Call("GET", "/openapi.json", nil).Want(200).Decode(&doc)
		var work []string
		for path, operations := range doc.Paths {
			for method := range operations {
				work = append(work, strings.ToUpper(method)+" "+path)
			}
		}
		for route := range rights {
			if !slices.Contains(work, route) {
				t.Errorf("%s is not a route", route)
			}
		}
		var group sync.WaitGroup
		for part := range slices.Chunk(work, (len(work)+7)/8) {
			group.Go(func() {
				for _, route := range part {
					m.check(route)
				}
			})
		}
		group.Wait()
	})
}

// matrix is an installation with something of each kind in one organization, and everybody who may
// want to use it.
type matrix struct {
	s          *installation.Steward
	ids        map[string]string // by the end of a path, or by the name of a parameter
	presenters []presenter
}

// check uses a route as everybody.
func (m *matrix) check(route string) {
	r, known := rights[route]
	if !known {
		m.s.T.Errorf("%s has no entry in rights: add one", route)
		return
	}
	method, pattern, _ := strings.Cut(route, " ")
	for _, p := range m.presenters {
		status, detail := p.want(r)
		path := m.path(pattern, method == "GET" || p.other)
		if p.other && strings.Contains(pattern, "{") && !r.own {
			status = 404
		}
		if p.other && strings.HasPrefix(pattern, "/oidc/keys") {
			status, detail = 403, " in the first organization of this installation is required to "
		}
		got, err := m.send(p, method, path, r)
		if err != nil {
			m.s.T.Errorf("%s as %s: %v", route, p.name, err)
			continue
		}
		if !p.accepts(got, method, status, detail) {
			m.s.T.Errorf("%s as %s: got %d %s %s, want %d %s", route, p.name, got.Status,
				got.Header.Get("WWW-Authenticate"), got.Body, status, detail)
		}
	}
}

// accepts reports whether a response is as it must be.
func (p presenter) accepts(got *installation.Response, method string, status int, detail string) bool {
	switch {
	case status == 401:
		return got.Status == 401 && strings.HasPrefix(got.Header.Get("WWW-Authenticate"), detail)
	case status != 0:
		return got.Status == status && strings.Contains(string(got.Body), detail)
	case p.exact && method == "GET":
		return got.Status == 200
	}
	return got.Status != 401 && got.Status != 403 && got.Status < 500
}

func (m *matrix) send(p presenter, method, path string, r right) (*installation.Response, error) {
	authorization := p.authorization(r.scope)
	var headers []string
	if authorization != "" {
		headers = append(headers, "Authorization", authorization)
	}
	if p.proof != nil {
		_, token, _ := strings.Cut(authorization, " ")
		headers = append(headers, "DPoP", p.proof.Proof(method, m.s.URL+path, token, ""))
	}
	return m.s.As("").Try(method, path, r.body, headers...)
}

// path returns a path with ids that exist, or with ids that do not, so that nothing is changed.
func (m *matrix) path(pattern string, existing bool) string {
	parts := strings.Split(pattern, "/")
	for i, part := range parts {
		if !strings.HasPrefix(part, "{") {
			continue
		}
		id := m.ids[part]
		if part == "{id}" {
			id = m.ids[strings.Join(parts[:i], "/")]
		}
		if !existing {
			id = "none"
		}
		parts[i] = id
	}
	path := strings.Join(parts, "/")
	if pattern == "/storage/presign/{bucket}" || strings.HasSuffix(pattern, "/{name}/value") {
		path += "?key=k"
	}
	if strings.HasPrefix(pattern, "/webhook/tail") {
		path += "?follow=false"
	}
	return path
}
