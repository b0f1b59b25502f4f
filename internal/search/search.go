// Package search finds things of an organization by their id or words of their name.
//
// Each Source is a function of the package that owns the things; it returns few of them, from an index,
// and only those that the caller may see. Handler asks the sources whose permission the caller has.
package search

import (
	"context"

	"steward/internal/auth"
	"steward/internal/db"
)

// maxResults is how many things a search returns.
const maxResults = 20

// Result is a thing that was found.
type Result struct {
	_ struct{} `goName:"SearchResult"`

	Type string `json:"type" enum:"webhook,destination,receipt,oauth_client,api_key,bucket,database,store,thread,session,eval,eval_run,project,member"`
	ID   string `json:"id" doc:"Id of the thing; the name of a bucket" example:"wh_01jcq43f5h8k1n4q7t0w3z6c9f"`
	Name string `json:"name" doc:"Its name; that of the webhook for a destination or receipt" example:"Orders"`
	// Parent is empty for all but parts of webhooks.
	Parent string `json:"parent,omitempty" doc:"Id of the webhook of a destination or receipt" example:"wh_01jcq43f5h8k1n4q7t0w3z6c9f"`
}

// Source finds things of one type.
type Source struct {
	Type string
	// Permission is the one to read the things.
	Permission auth.Permission
	// Find returns at most limit things that the caller sees: the one with an id first.
	Find func(ctx context.Context, caller *auth.Caller, text string, limit int) ([]db.Named, error)
}

// Handler serves the route of this package.
type Handler struct{ Sources []Source }

// Input is the query of a search.
type Input struct {
	Text string `query:"q" maxLength:"256" doc:"An id, or words of a name or their beginnings, in any case. The id of a delivery finds its receipt. Nothing is found if it is empty" example:"orders"`
}

// Search serves GET /search.
func (h *Handler) Search(ctx context.Context, in *Input) ([]Result, error) {
	if in.Text == "" {
		return []Result{}, nil
	}
	caller := auth.From(ctx)
	var found [][]Result
	for _, s := range h.Sources {
		if !caller.May(s.Permission) {
			continue
		}
		things, err := s.Find(ctx, caller, in.Text, maxResults)
		if err != nil {
			return nil, err
		}
		results := make([]Result, len(things))
		for i, t := range things {
			results[i] = Result{Type: s.Type, ID: t.ID, Name: t.Name, Parent: t.Parent}
		}
		found = append(found, results)
	}
	return merge(found, in.Text), nil
}

// merge returns the results with an id first, and then of each type in turn, so that none takes the
// place of all others.
func merge(found [][]Result, wantedID string) []Result {
	byID, others := []Result{}, []Result{}
	for i := range maxResults {
		for _, results := range found {
			switch {
			case i >= len(results):
			case results[i].ID == wantedID:
				byID = append(byID, results[i])
			default:
				others = append(others, results[i])
			}
		}
	}
	all := append(byID, others...)
	return all[:min(len(all), maxResults)]
}
