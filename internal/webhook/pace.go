package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"

	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/idempotency"
	"steward/internal/page"
	"steward/internal/stamp"
	"steward/internal/webhook/queue"
)

// The pace of a destination is in its config, under the keys rate, paused and retry. A config that was
// saved by a version before schemaOfPace may have these keys with another meaning, and then they have no
// effect. config_schema tells.
//
// rate: the process that holds the destination's lease spaces the attempts in memory (queue.Rate). A new
// holder reads from the lease until when another one may have sent.
//
// paused: a column repeats it, and queue.Store.Due and Heads leave such destinations out. Deliveries are
// added as ever and stay pending. What a process had in memory goes back to the queue unattempted.
//
// retry: a failed attempt's result carries the delays, and Finish adds the next attempt by them.

// schemaOfPace is the migration that added the pace.
const schemaOfPace = 51

const (
	maxRate     = 1000
	maxDelay    = 86400
	maxAttempts = 100
	maxGiveUp   = 30 * 86400
)

// paceKeys are the keys of config.
var paceKeys = []string{"rate", "paused", "retry"}

// pace is a destination's pace. The zero value is the one without any of the keys.
type pace struct {
	rate   queue.Rate
	paused bool
	retry  retryPolicy
}

// retryPolicy says when failed deliveries are attempted again. The zero value leaves it to max_retries.
type retryPolicy struct {
	delays      []time.Duration
	retries     int
	giveUpAfter time.Duration
}

// pace parses the three keys of config.
func (c Config) pace(faults *errs.Faults) (p pace) {
	const at = "body.config."
	if c.rate != nil {
		p.rate = parseRate(c.rate, at+"rate", faults)
	}
	if c.paused != nil {
		faults.Check(json.Unmarshal(c.paused, &p.paused) == nil, at+"paused", "expected true or false")
	}
	if c.retry != nil {
		p.retry = parseRetry(c, at+"retry", faults)
	}
	return p
}

// settings are the members of an object in config. What is wrong with one is a fault at its place.
type settings struct {
	at      string
	members map[string]json.RawMessage
	faults  *errs.Faults
}

// openSettings returns an object's members, of which only these may be there.
func openSettings(text json.RawMessage, at string, faults *errs.Faults, names ...string) settings {
	s := settings{at: at, faults: faults}
	if err := json.Unmarshal(text, &s.members); err != nil {
		faults.Add(at, "expected an object")
	}
	for _, name := range slices.Sorted(maps.Keys(s.members)) {
		faults.Check(slices.Contains(names, name), at+"."+name, "expected one of %s", strings.Join(names, ", "))
	}
	return s
}

// has reports whether a member is there.
func (s settings) has(name string) bool { return isSet(s.members[name]) }

// number returns a member that is at least 1, or 0 if it is absent.
func (s settings) number(name string, most int) int {
	if !s.has(name) {
		return 0
	}
	return s.parse(s.members[name], s.at+"."+name, most)
}

func (s settings) parse(text json.RawMessage, at string, most int) int {
	var n whole
	err := json.Unmarshal(text, &n)
	s.faults.Check(err == nil && n >= 1 && int(n) <= most, at, "expected 1 to %d", most)
	return int(n)
}

// oneOf returns a member with one of these values.
func (s settings) oneOf(name string, values ...string) (value string) {
	if err := pick(s.members[name], &value); err != nil || !slices.Contains(values, value) {
		s.faults.Add(s.at+"."+name, "expected one of %s", strings.Join(values, ", "))
		return ""
	}
	return value
}

// require adds a fault unless a member is there, or absent, as it should be.
func (s settings) require(name string, wanted bool) {
	s.faults.Check(s.has(name) == wanted, s.at+"."+name, "expected %s for this type", map[bool]string{true: "a value", false: "none"}[wanted])
}

func parseRate(text json.RawMessage, at string, faults *errs.Faults) queue.Rate {
	s := openSettings(text, at, faults, "limit", "per")
	faults.Check(s.has("limit"), at+".limit", "expected 1 to %d", maxRate)
	r := queue.Rate{Limit: s.number("limit", maxRate), Per: time.Second}
	if s.oneOf("per", "second", "minute") == "minute" {
		r.Per = time.Minute
	}
	return r
}

func parseRetry(c Config, at string, faults *errs.Faults) (p retryPolicy) {
	s := openSettings(c.retry, at, faults, "type", "delay_seconds", "delays_seconds", "max_attempts", "give_up_after_seconds")
	kind := s.oneOf("type", "exponential", "linear", "list")
	if kind == "" {
		return p
	}
	s.require("delay_seconds", kind != "list")
	s.require("delays_seconds", kind == "list")
	first := time.Duration(s.number("delay_seconds", maxDelay)) * time.Second
	p.retries = c.MaxRetries
	switch kind {
	case "linear":
		p.delays = []time.Duration{first}
	case "exponential":
		const last = maxDelay * time.Second
		for delay := first; delay > 0 && delay < last; delay *= 2 {
			p.delays = append(p.delays, delay)
		}
		p.delays = append(p.delays, last)
	case "list":
		p.delays = s.delays("delays_seconds")
		p.retries = len(p.delays)
	}
	if n := s.number("max_attempts", maxAttempts); n > 0 {
		p.retries = n - 1
	}
	p.giveUpAfter = time.Duration(s.number("give_up_after_seconds", maxGiveUp)) * time.Second
	return p
}

// delays returns a list of delays.
func (s settings) delays(name string) (all []time.Duration) {
	var list []json.RawMessage
	if err := pick(s.members[name], &list); err != nil || len(list) == 0 || len(list) >= maxAttempts {
		s.faults.Add(s.at+"."+name, "expected a list with 1 to %d delays", maxAttempts-1)
		return nil
	}
	for i, text := range list {
		all = append(all, time.Duration(s.parse(text, fmt.Sprintf("%s.%s[%d]", s.at, name, i), maxDelay))*time.Second)
	}
	return all
}

// apply sets when a result's delivery is attempted again, if it has failed.
func (p retryPolicy) apply(r *queue.Result) {
	if p.delays == nil {
		return
	}
	r.MaxRetries = p.retries
	r.Delays = p.delays
	if p.giveUpAfter > 0 {
		r.GiveUpAt = beganAt(r.Row).Add(p.giveUpAfter)
	}
}

// beganAt returns the time of a delivery's receipt, or of the replay that delivers it again.
func beganAt(row queue.Row) stamp.Time {
	text := row.ReceiptKey[len(row.ReceiptKey)/2:]
	if row.ReplayID != "" {
		text = bare(row.ReplayID)
	}
	u, err := ulid.Parse(text)
	if err != nil {
		return row.Date
	}
	return stamp.Of(u.Timestamp())
}

// usePace sets the pace of a stored config, and notes the keys that have no effect.
func (d *Destination) usePace(schema int64) {
	for key, value := range map[string]*json.RawMessage{"rate": &d.Config.rate, "paused": &d.Config.paused, "retry": &d.Config.retry} {
		var faults errs.Faults
		d.Config.pace(&faults)
		if *value != nil && (schema < schemaOfPace || faults.HasInside("body.config."+key)) {
			d.Ignored = append(d.Ignored, key)
			*value = nil
		}
	}
	slices.Sort(d.Ignored)
	var none errs.Faults
	d.pace = d.Config.pace(&none)
}

// pausedColumn returns whether a checked config is paused. It returns Conflict if the config has a pace
// while a process of an earlier version lives, which would not keep it.
func (s *Store) pausedColumn(tx *db.Tx, c Config) (bool, error) {
	for i, value := range []json.RawMessage{c.rate, c.paused, c.retry} {
		if value == nil || string(value) == "false" {
			continue
		}
		if err := db.RequireSchema(tx, s.Now(), schemaOfPace, paceKeys[i]); err != nil {
			return false, err
		}
	}
	var none errs.Faults
	return c.pace(&none).paused, nil
}

// savePace writes what a destination's new config says of its pace, and has deliveries sent that the old
// one held back.
func (s *Store) savePace(tx *db.Tx, d *Destination) error {
	paused, err := s.pausedColumn(tx, d.Config)
	if err != nil {
		return err
	}
	if _, err := tx.Exec(`UPDATE webhook_destinations SET config_schema = $4, paused = $5 WHERE org_id = $1 AND webhook_id = $2 AND id = $3`,
		d.orgID, d.WebhookID, d.ID, schemaOfPace, paused); err != nil {
		return fmt.Errorf("update pace: %w", err)
	}
	d.Ignored = nil
	d.usePace(schemaOfPace)
	tx.OnCommit(func() { s.Queue.Notify([]string{d.ID}) })
	return nil
}

// secretOverlap is for how long the secret before a rotation signs too.
const secretOverlap = 24 * time.Hour

// RotateDestinationSecret gives a destination a new signing secret and returns it. The old one signs too
// for a day; one that was replaced before that ends now. It returns errors from destinationForChange, and
// Conflict while a process of an earlier version lives, which would sign with the new secret alone.
func (s *Store) RotateDestinationSecret(ctx context.Context, to DestinationRef, match page.IfMatch) (secret string, err error) {
	secret = newSecret()
	err = s.DB.Write(ctx, func(tx *db.Tx) error {
		d, err := s.destinationForChange(tx, to, match)
		if err != nil {
			return err
		}
		if err := db.RequireSchema(tx, s.Now(), schemaOfPace, "a second secret"); err != nil {
			return err
		}
		now := stamp.Of(s.Now())
		if _, err := tx.Exec(`UPDATE webhook_destinations SET previous_secret = secret, previous_until = @until, secret = @secret,
			updated_at = @now, version = @version WHERE org_id = @org_id AND webhook_id = @webhook_id AND id = @id`,
			db.Args{
				"until": now.Add(secretOverlap), "secret": s.Ring.Seal(secretPurpose, []byte(secret)), "now": now, "version": d.version + 1,
				"org_id": to.OrgID, "webhook_id": to.WebhookID, "id": to.ID,
			}); err != nil {
			return fmt.Errorf("update secret: %w", err)
		}
		if err := tx.Invalidate(destinationsChanged); err != nil {
			return err
		}
		return s.Audit.Record(tx, "webhook.destination-rotate-secret", to.ID)
	})
	return secret, err
}

// sweepSecrets removes secrets that no longer sign.
func (r *Retention) sweepSecrets(ctx context.Context) error {
	const ended = `SELECT id FROM webhook_destinations WHERE previous_until <= $1 ORDER BY previous_until LIMIT $2`
	now := stamp.Of(r.Store.Now())
	first, err := db.Collect(r.Store.DB.Read(ctx), db.Value[string], ended, now, 1)
	if err != nil {
		return fmt.Errorf("find ended secrets: %w", err)
	}
	if len(first) == 0 {
		return nil
	}
	n, err := r.Store.DB.Exec(ctx, `UPDATE webhook_destinations SET previous_secret = NULL, previous_until = NULL
		WHERE id IN (`+ended+db.SkipLocked(r.Store.DB.Dialect())+`) AND previous_until <= $1`, now, sweepRows)
	if err != nil {
		return fmt.Errorf("delete ended secrets: %w", err)
	}
	r.more = r.more || n == sweepRows
	return nil
}

// DestinationSecret is the response to a rotation.
type DestinationSecret struct {
	_ struct{} `goName:"WebhookDestinationSecret"`

	Secret string `json:"secret" doc:"New signing secret (Standard Webhooks); shown only now" example:"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw0Xn4v1bTzq8="`
}

// RotateDestinationSecret handles POST /webhook/destination-rotate-secret/{webhookId}/{destinationId}.
func (h *Handler) RotateDestinationSecret(ctx context.Context, in *struct {
	DestinationPath
	page.IfMatch
},
) (DestinationSecret, error) {
	return idempotency.Once(ctx, func(ctx context.Context) (DestinationSecret, error) {
		secret, err := h.Store.RotateDestinationSecret(ctx, in.of(auth.From(ctx).OrgID), in.IfMatch)
		return DestinationSecret{Secret: secret}, err
	})
}

// errPaused is the error for an attempt that is not made because its destination was paused meanwhile.
var errPaused = errors.New("webhook: the destination is paused")
