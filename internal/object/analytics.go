package object

import (
	"strconv"
	"time"

	"steward/internal/stamp"
)

// Analytics is what an organization stores, now and on the last days.
type Analytics struct {
	_ struct{} `goName:"StorageAnalytics"`

	Summary Summary           `json:"summary"`
	Buckets []BucketAnalytics `json:"buckets"`
	Daily   []DayAnalytics    `json:"daily" doc:"Closing values of each day, from the first day with data on"`
	Days    int               `json:"days" example:"180"`
}

// Summary is what all buckets hold now.
type Summary struct {
	_ struct{} `goName:"StorageSummary"`

	ObjectCount int64   `json:"total_object_count" example:"1200"`
	TotalSize   int64   `json:"total_size" doc:"In bytes" example:"57855600"`
	MonthlyCost float64 `json:"estimated_monthly_cost" doc:"In USD" example:"0.0012"`
	CostPerGB   float64 `json:"cost_per_gb_month" doc:"Blended price of what is stored, in USD for a GB (10^9 bytes) and month" example:"0.02"`
}

// BucketAnalytics is what a bucket holds now.
type BucketAnalytics struct {
	BucketName  string      `json:"bucket_name" example:"invoices"`
	ObjectCount int64       `json:"object_count" example:"1200"`
	TotalSize   int64       `json:"total_size" doc:"In bytes" example:"57855600"`
	LastEventAt *stamp.Time `json:"last_event_at,omitempty" format:"date-time" example:"2026-11-15T08:30:00.123Z"`
	MonthlyCost float64     `json:"estimated_monthly_cost" doc:"In USD" example:"0.0012"`
}

// DayAnalytics is what all buckets held at the end of a day in UTC.
type DayAnalytics struct {
	_ struct{} `goName:"StorageDay"`

	Date        string  `json:"date" format:"date" example:"2026-11-15"`
	ObjectCount int64   `json:"total_object_count" example:"1200"`
	TotalSize   int64   `json:"total_size" doc:"In bytes" example:"57855600"`
	Cost        float64 `json:"estimated_cost" doc:"Estimate for a month, in USD" example:"0.0012"`
}

// DefaultPrices returns the prices in USD for a GB (10^9 bytes) and month.
func DefaultPrices() map[Tier]float64 {
	return map[Tier]float64{Standard: 0.02, InfrequentAccess: 0.01, Archive: 0.004}
}

const gigabyte = 1e9

// holding is what is stored in each tier.
type holding map[Tier]sums

func (h holding) add(tier Tier, s sums) { h[tier] = h[tier].plus(s) }

func (h holding) total() (all sums) {
	for _, s := range h {
		all = all.plus(s)
	}
	return all
}

// cost returns what a holding costs in a month, added in the order of tiers so that equal holdings
// have equal costs.
func (h holding) cost(prices map[Tier]float64) float64 {
	cost := 0.0
	for _, tier := range tiers {
		cost += float64(h[tier].bytes) / gigabyte * prices[tier]
	}
	return rounded(cost)
}

// costDigits is the number of significant digits of costs. The others are errors of the arithmetic.
const costDigits = 12

// rounded returns a cost with at most costDigits significant digits.
func rounded(cost float64) float64 {
	text := strconv.FormatFloat(cost, 'e', costDigits-1, 64)
	short, _ := strconv.ParseFloat(text, 64) // FormatFloat has made it
	return short
}

// summary returns what a holding is and costs.
func (h holding) summary(prices map[Tier]float64) Summary {
	all := h.total()
	s := Summary{ObjectCount: all.objects, TotalSize: all.bytes, MonthlyCost: h.cost(prices), CostPerGB: prices[Standard]}
	if all.bytes > 0 {
		s.CostPerGB = rounded(s.MonthlyCost / (float64(all.bytes) / gigabyte))
	}
	return s
}

// dayChange is by how much a tier changed on a day.
type dayChange struct {
	day  int64
	tier Tier
	sums
}

// daily returns the closing values of the days from first to today. now is what is held now, and
// changes has those of first and all later days.
func daily(now holding, changes []dayChange, first, today int64, prices map[Tier]float64) []DayAnalytics {
	byDay := map[int64][]dayChange{}
	held := holding{}
	for tier, s := range now {
		held[tier] = s
	}
	undo := func(some []dayChange) {
		for _, c := range some {
			held.add(c.tier, sums{-c.objects, -c.bytes})
		}
	}
	for _, c := range changes {
		if c.day > today { // of a replica whose clock is ahead
			undo([]dayChange{c})
			continue
		}
		byDay[c.day] = append(byDay[c.day], c)
	}
	days := make([]DayAnalytics, max(0, today-first+1))
	for day := today; day >= first; day-- {
		all := held.total()
		days[day-first] = DayAnalytics{
			Date:        time.Unix(day*secondsPerDay, 0).UTC().Format(time.DateOnly),
			ObjectCount: all.objects, TotalSize: all.bytes, Cost: held.cost(prices),
		}
		undo(byDay[day])
	}
	return days
}
