package object

import (
	"maps"
	"strconv"
	"time"

	"steward/internal/stamp"
)

// Analytics says how much an organization stores, now and in recent days.
type Analytics struct {
	_ struct{} `goName:"StorageAnalytics"`

	Summary Summary           `json:"summary"`
	Buckets []BucketAnalytics `json:"buckets"`
	Daily   []DayAnalytics    `json:"daily" doc:"Closing values of each day, from the first day with data on"`
	Days    int               `json:"days" example:"180"`
	Priced  bool              `json:"priced" doc:"Whether the operator has set prices; otherwise costs are those of common prices"`
}

// Summary says how much all buckets hold now.
type Summary struct {
	_ struct{} `goName:"StorageSummary"`

	ObjectCount int64   `json:"total_object_count" example:"1200"`
	TotalSize   int64   `json:"total_size" doc:"In bytes" example:"57855600"`
	MonthlyCost float64 `json:"estimated_monthly_cost" doc:"In USD" example:"0.0012"`
	CostPerGB   float64 `json:"cost_per_gb_month" doc:"Blended price of what is stored, in USD for a GB (10^9 bytes) and month" example:"0.02"`
}

// BucketAnalytics says how much a bucket holds now.
type BucketAnalytics struct {
	BucketName  string      `json:"bucket_name" example:"invoices"`
	ObjectCount int64       `json:"object_count" example:"1200"`
	TotalSize   int64       `json:"total_size" doc:"In bytes" example:"57855600"`
	LastEventAt *stamp.Time `json:"last_event_at,omitempty" format:"date-time" example:"2026-11-15T08:30:00.123Z"`
	MonthlyCost float64     `json:"estimated_monthly_cost" doc:"In USD" example:"0.0012"`
}

// DayAnalytics says how much all buckets held at the end of a day in UTC.
type DayAnalytics struct {
	_ struct{} `goName:"StorageDay"`

	Date        string  `json:"date" format:"date" example:"2026-11-15"`
	ObjectCount int64   `json:"total_object_count" example:"1200"`
	TotalSize   int64   `json:"total_size" doc:"In bytes" example:"57855600"`
	Cost        float64 `json:"estimated_cost" doc:"Estimate for a month, in USD" example:"0.0012"`
}

// DefaultPrices returns prices in USD for a GB (10^9 bytes) and month.
func DefaultPrices() map[Tier]float64 {
	return map[Tier]float64{Standard: 0.02, InfrequentAccess: 0.01, Archive: 0.004}
}

const gigabyte = 1e9

// sums counts objects and their bytes.
type sums struct{ objects, bytes int64 }

func (s sums) plus(other sums) sums { return sums{s.objects + other.objects, s.bytes + other.bytes} }

func (s sums) negative() sums { return sums{-s.objects, -s.bytes} }

// tierSums counts a tier's objects and their bytes.
type tierSums struct {
	tier Tier
	sums
}

// holding counts stored objects by tier.
type holding map[Tier]sums

func (h holding) add(tier Tier, s sums) { h[tier] = h[tier].plus(s) }

func (h holding) total() (all sums) {
	for _, s := range h {
		all = all.plus(s)
	}
	return all
}

// cost returns a holding's monthly cost. It adds tiers in a fixed order, so that equal holdings cost
// exactly the same in floating point.
func (h holding) cost(prices map[Tier]float64) float64 {
	cost := 0.0
	for _, tier := range tiers {
		cost += float64(h[tier].bytes) / gigabyte * prices[tier]
	}
	return rounded(cost)
}

// costDigits limits a cost's significant digits. Any further ones are rounding errors.
const costDigits = 12

// rounded cuts a cost to costDigits significant digits.
func rounded(cost float64) float64 {
	text := strconv.FormatFloat(cost, 'e', costDigits-1, 64)
	short, _ := strconv.ParseFloat(text, 64) // FormatFloat's output always parses
	return short
}

// summary returns a holding's sizes and costs.
func (h holding) summary(prices map[Tier]float64) Summary {
	all := h.total()
	s := Summary{ObjectCount: all.objects, TotalSize: all.bytes, MonthlyCost: h.cost(prices), CostPerGB: prices[Standard]}
	if all.bytes > 0 {
		s.CostPerGB = rounded(s.MonthlyCost / (float64(all.bytes) / gigabyte))
	}
	return s
}

// bucketUsage is a bucket with its holding.
type bucketUsage struct {
	id, name    string
	lastEventAt *stamp.Time
	held        holding
}

// dayChange says by how much a tier changed on a day.
type dayChange struct {
	day int64
	tierSums
}

const secondsPerDay = 86400

// dayOf returns a time's day in UTC, counted from 1970.
func dayOf(t time.Time) int64 { return t.Unix() / secondsPerDay }

// history is an organization's current holding with its recent changes.
type history struct {
	buckets []bucketUsage
	changes []dayChange // from the day from on
	first   *int64      // the first day with data, or nil
	// from and today are the answer's first and last day.
	from, today int64
}

// analytics turns a history into the answer.
func (h history) analytics(prices map[Tier]float64) Analytics {
	a := Analytics{Buckets: []BucketAnalytics{}, Daily: []DayAnalytics{}, Days: int(h.today - h.from + 1)}
	now := holding{}
	for _, b := range h.buckets {
		for tier, held := range b.held {
			now.add(tier, held)
		}
		all := b.held.total()
		a.Buckets = append(a.Buckets, BucketAnalytics{
			BucketName: b.name, ObjectCount: all.objects, TotalSize: all.bytes, LastEventAt: b.lastEventAt, MonthlyCost: b.held.cost(prices),
		})
	}
	a.Summary = now.summary(prices)
	if h.first != nil {
		a.Daily = h.daily(now, prices)
	}
	return a
}

// daily returns each day's closing values, from the first day with data. It starts at the current holding
// and undoes the changes day by day.
func (h history) daily(now holding, prices map[Tier]float64) []DayAnalytics {
	held := maps.Clone(now)
	byDay := map[int64][]dayChange{}
	for _, c := range h.changes {
		day := min(c.day, h.today+1) // a replica's clock may be ahead
		byDay[day] = append(byDay[day], c)
	}
	first := max(h.from, *h.first)
	days := make([]DayAnalytics, max(0, h.today-first+1))
	for day := h.today; day >= first; day-- {
		for _, c := range byDay[day+1] {
			held.add(c.tier, c.negative())
		}
		all := held.total()
		days[day-first] = DayAnalytics{
			Date:        time.Unix(day*secondsPerDay, 0).UTC().Format(time.DateOnly),
			ObjectCount: all.objects, TotalSize: all.bytes, Cost: held.cost(prices),
		}
	}
	return days
}
