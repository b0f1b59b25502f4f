// Package resource owns regions and what is provisioned in them. So far it lists the configured
// regions.
package resource

import "context"

// Region is a place where resources can be created.
type Region struct {
	Region      string `json:"region"`
	Description string `json:"description"`
}

// Handler serves the routes of this package.
type Handler struct{ Configured []Region }

// Regions serves GET /cli/region.
func (h *Handler) Regions(context.Context, *struct{}) ([]Region, error) { return h.Configured, nil }
