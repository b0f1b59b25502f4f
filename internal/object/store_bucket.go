package object

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/id"
	"steward/internal/name"
	"steward/internal/page"
	"steward/internal/stamp"
)

const (
	// accessKeyPrefix begins all access keys. S3 takes one that begins with ASIA for a temporary key.
	accessKeyPrefix = "ST"
	accessKeySize   = 20
	secretKeySize   = 40
	secretPurpose   = "bucket.secret"
)

// Forget empties the cache of buckets.
func (s *Store) Forget() {
	s.byName.Forget()
	s.byKey.Forget()
}

const bucketColumns = `name, id, org_id, region, description, access_key, secret, internal, webhook_id, storage_tier, ttl_seconds,
	public, cache_control, cors, additional_headers, created_by, created_at, updated_at, version`

func (s *Store) scanBucket(r db.Row) (*Bucket, error) {
	b := &Bucket{}
	c := &b.Config
	var secret []byte
	var webhookID, cors, headers *string
	if err := r.Scan(&b.Name, &b.ID, &b.OrgID, &b.Region, &b.Description, &b.AccessKey, &secret, &b.Internal, &webhookID,
		&c.StorageTier, &c.TTL, &c.Public, &c.CacheControl, &cors, &headers, &b.CreatedBy, &b.CreatedAt, &b.UpdatedAt, &b.version); err != nil {
		return nil, err
	}
	if webhookID != nil {
		b.WebhookID = *webhookID
	}
	plain, err := s.Ring.Open(secretPurpose, secret)
	if err != nil {
		return nil, fmt.Errorf("open secret of bucket: %w", err)
	}
	b.SecretKey = string(plain)
	if err := fromJSON(cors, &c.CORS); err != nil {
		return nil, err
	}
	return b, fromJSON(headers, &c.AdditionalHeaders)
}

func fromJSON(text *string, to any) error {
	if text == nil {
		return nil
	}
	if err := json.Unmarshal([]byte(*text), to); err != nil {
		return fmt.Errorf("decode configuration: %w", err)
	}
	return nil
}

// toJSON returns the text of a value, or nil if there is none.
func toJSON(value any, none bool) (*string, error) {
	if none {
		return nil, nil
	}
	text, err := json.Marshal(value)
	if err != nil {
		return nil, fmt.Errorf("encode configuration: %w", err)
	}
	return db.Null(string(text)), nil
}

// CreateBucket creates a bucket of the caller's organization with new credentials, in the
// transaction of the resource. It returns Invalid for a name that S3 does not allow, and Conflict
// if the name is taken.
func (s *Store) CreateBucket(tx *db.Tx, caller *auth.Caller, n NewBucket) (*Bucket, error) {
	now := s.Now()
	b := &Bucket{
		ID: id.At(id.Bucket, now), Name: cmp.Or(n.Name, newName()), OrgID: caller.OrgID, Region: n.Region, Description: n.Description,
		AccessKey: newAccessKey(), SecretKey: id.Secret(secretKeySize), Internal: n.Internal,
		CreatedBy: caller.Actor(), CreatedAt: stamp.Of(now), UpdatedAt: stamp.Of(now), version: 1,
	}
	if !name.ValidBucket(b.Name) {
		return nil, errs.InvalidField("name", "expected %s", name.ExpectedBucket)
	}
	if err := s.insertBucket(tx, b); err != nil {
		return nil, err
	}
	if err := s.createWebhook(tx, b); err != nil {
		return nil, err
	}
	if err := tx.Invalidate(Cache); err != nil { // another replica may have had the name in its cache
		return nil, err
	}
	return b, s.Audit(tx, "bucket.create", b.Name)
}

func newAccessKey() string { return accessKeyPrefix + id.Secret(accessKeySize-len(accessKeyPrefix)) }

// newName returns a name that nobody has.
func newName() string { return "bucket-" + strings.ToLower(id.Secret(20)) }

func (s *Store) insertBucket(tx *db.Tx, b *Bucket) error {
	n, err := tx.Exec(`INSERT INTO buckets (name, id, org_id, region, description, access_key, secret, internal, created_by, created_at,
		updated_at, version) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12) ON CONFLICT (name) DO NOTHING`,
		b.Name, b.ID, b.OrgID, b.Region, b.Description, b.AccessKey, s.Ring.Seal(secretPurpose, []byte(b.SecretKey)), b.Internal,
		b.CreatedBy, b.CreatedAt, b.UpdatedAt, b.version)
	if err != nil {
		return fmt.Errorf("insert bucket: %w", err)
	}
	if n == 0 {
		return errs.New(errs.Conflict, "a bucket named %s exists already", b.Name)
	}
	if _, err := tx.Exec(`INSERT INTO bucket_states (bucket_id) VALUES ($1)`, b.ID); err != nil {
		return fmt.Errorf("insert state of bucket: %w", err)
	}
	if _, err := tx.Exec(`INSERT INTO object_blocks (`+blockColumns+`) VALUES ($1, '', 0, 0)`, b.ID); err != nil {
		return fmt.Errorf("insert first block: %w", err)
	}
	return nil
}

func (s *Store) createWebhook(tx *db.Tx, b *Bucket) (err error) {
	if s.CreateWebhook == nil {
		return nil
	}
	if b.WebhookID, err = s.CreateWebhook(tx, b); err != nil {
		return fmt.Errorf("create webhook of bucket: %w", err)
	}
	if _, err := tx.Exec(`UPDATE buckets SET webhook_id = $2 WHERE id = $1`, b.ID, b.WebhookID); err != nil {
		return fmt.Errorf("update bucket: %w", err)
	}
	return nil
}

// DeleteBucket deletes a bucket of an organization in a region with all that it holds. Its totals
// are subtracted at once; Purge removes the rows. It returns NotFound, and Conflict if the bucket
// must be empty and is not.
func (s *Store) DeleteBucket(tx *db.Tx, orgID, region, name string, ifEmpty bool) error {
	b, err := s.ownBucket(tx, orgID, name)
	if err != nil {
		return err
	}
	if b.Region != region {
		return errs.Missing("bucket", name)
	}
	if err := lock(tx, b); err != nil {
		return err
	}
	held, err := s.subtractTotals(tx, b)
	if err != nil {
		return err
	}
	if ifEmpty && held > 0 {
		return errs.New(errs.Conflict, "bucket %s is not empty", name)
	}
	for _, text := range []string{`DELETE FROM bucket_states WHERE bucket_id = $1`, `DELETE FROM buckets WHERE id = $1`} {
		if _, err := tx.Exec(text, b.ID); err != nil {
			return fmt.Errorf("delete bucket: %w", err)
		}
	}
	if _, err := tx.Exec(`INSERT INTO bucket_purges (bucket_id, deleted_at) VALUES ($1, $2)`, b.ID, stamp.Of(s.Now())); err != nil {
		return fmt.Errorf("insert purge: %w", err)
	}
	if s.DeleteWebhook != nil && b.WebhookID != "" {
		if err := s.DeleteWebhook(tx, orgID, b.WebhookID); err != nil {
			return fmt.Errorf("delete webhook of bucket: %w", err)
		}
	}
	if err := tx.Invalidate(Cache); err != nil {
		return err
	}
	return s.Audit(tx, "bucket.delete", name)
}

// subtractTotals subtracts all that a bucket holds, and returns the number of its objects.
func (s *Store) subtractTotals(tx *db.Tx, b *Bucket) (objects int64, err error) {
	now := stamp.Of(s.Now())
	held, err := db.Collect(tx, scanTierSums, `SELECT tier, objects, bytes FROM bucket_totals WHERE org_id = $1 AND bucket_id = $2`,
		b.OrgID, b.ID)
	if err != nil {
		return 0, fmt.Errorf("read totals of bucket: %w", err)
	}
	for _, h := range held {
		if err := book(tx, now, b, h.tier, -h.objects, -h.bytes); err != nil {
			return 0, err
		}
		objects += h.objects
	}
	return objects, nil
}

// RotateKeys gives a bucket new credentials; the old ones are refused from then on. It returns
// NotFound.
func (s *Store) RotateKeys(tx *db.Tx, orgID, name string) (*Bucket, error) {
	b, err := s.ownBucket(tx, orgID, name)
	if err != nil {
		return nil, err
	}
	b.AccessKey = newAccessKey()
	b.SecretKey = id.Secret(secretKeySize)
	if _, err := tx.Exec(`UPDATE buckets SET access_key = $2, secret = $3 WHERE id = $1`,
		b.ID, b.AccessKey, s.Ring.Seal(secretPurpose, []byte(b.SecretKey))); err != nil {
		return nil, fmt.Errorf("update credentials of bucket: %w", err)
	}
	if err := tx.Invalidate(Cache); err != nil {
		return nil, err
	}
	return b, s.Audit(tx, "bucket.rotate", name)
}

// ownBucket reads a bucket of an organization, or NotFound.
func (s *Store) ownBucket(q db.Querier, orgID, name string) (*Bucket, error) {
	b, err := s.findBucket(q, `name`, name)
	if err == nil && b.OrgID != orgID {
		return nil, noBucket(name)
	}
	return b, err
}

func (s *Store) findBucket(q db.Querier, column, value string) (*Bucket, error) {
	if !isText(value) {
		return nil, noBucket(strings.ToValidUTF8(value, "?"))
	}
	b, err := s.scanBucket(q.Row(`SELECT `+bucketColumns+` FROM buckets WHERE `+column+` = $1`, value))
	if errors.Is(err, db.ErrNoRows) {
		return nil, noBucket(value)
	}
	if err != nil {
		return nil, fmt.Errorf("read bucket: %w", err)
	}
	return b, nil
}

// Bucket returns a bucket of any organization by its name, or NotFound.
func (s *Store) Bucket(ctx context.Context, name string) (*Bucket, error) {
	return s.byName.Get(name, func() (*Bucket, error) { return s.findBucket(s.DB.Read(ctx), `name`, name) })
}

// BucketByAccessKey returns the bucket that an access key belongs to, or NotFound.
func (s *Store) BucketByAccessKey(ctx context.Context, accessKey string) (*Bucket, error) {
	return s.byKey.Get(accessKey, func() (*Bucket, error) {
		b, err := s.findBucket(s.DB.Read(ctx), `access_key`, accessKey)
		if errs.KindOf(err) == errs.NotFound {
			return nil, errs.New(errs.NotFound, "the access key does not exist")
		}
		return b, err
	})
}

// Buckets returns the buckets of an organization in a region, or in all regions if it is empty, by
// name.
func (s *Store) Buckets(ctx context.Context, orgID, region string) ([]*Bucket, error) {
	text := `SELECT ` + bucketColumns + ` FROM buckets WHERE org_id = $1 AND region = $2 ORDER BY name`
	args := []any{orgID, region}
	if region == "" {
		text = `SELECT ` + bucketColumns + ` FROM buckets WHERE org_id = $1 ORDER BY name`
		args = args[:1]
	}
	all, err := db.Collect(s.DB.Read(ctx), s.scanBucket, text, args...)
	if err != nil {
		return nil, fmt.Errorf("list buckets: %w", err)
	}
	return all, nil
}

// UpdateConfig changes the configuration of a bucket. It returns NotFound, Invalid and
// PreconditionFailed.
func (s *Store) UpdateConfig(ctx context.Context, b *Bucket, p Patch, match page.IfMatch) (*Bucket, error) {
	return s.configure(ctx, b, "bucket.configure", match, p.Apply)
}

// ResetConfig restores the defaults. It returns NotFound and PreconditionFailed.
func (s *Store) ResetConfig(ctx context.Context, b *Bucket, match page.IfMatch) error {
	_, err := s.configure(ctx, b, "bucket.reset", match, func(Config) (Config, error) { return Config{}, nil })
	return err
}

func (s *Store) configure(ctx context.Context, b *Bucket, action string, match page.IfMatch,
	to func(Config) (Config, error),
) (changed *Bucket, err error) {
	err = s.DB.Write(ctx, func(tx *db.Tx) error {
		if err := lock(tx, b); err != nil { // a concurrent patch must not be lost
			return err
		}
		if changed, err = s.ownBucket(tx, b.OrgID, b.Name); err != nil {
			return err
		}
		if err := match.Check(changed); err != nil {
			return err
		}
		if changed.Config, err = to(changed.Config); err != nil {
			return err
		}
		return s.writeConfig(tx, changed, action)
	})
	return changed, err
}

func (s *Store) writeConfig(tx *db.Tx, b *Bucket, action string) error {
	c := b.Config
	cors, err := toJSON(c.CORS, c.CORS == nil)
	if err != nil {
		return err
	}
	headers, err := toJSON(c.AdditionalHeaders, c.AdditionalHeaders == nil)
	if err != nil {
		return err
	}
	b.version++
	b.UpdatedAt = stamp.Of(s.Now())
	if _, err := tx.Exec(`UPDATE buckets SET storage_tier = $2, ttl_seconds = $3, public = $4, cache_control = $5, cors = $6,
		additional_headers = $7, updated_at = $8, version = $9 WHERE id = $1`,
		b.ID, c.StorageTier, c.TTL, c.Public, c.CacheControl, cors, headers, b.UpdatedAt, b.version); err != nil {
		return fmt.Errorf("update configuration of bucket: %w", err)
	}
	if err := tx.Invalidate(Cache); err != nil {
		return err
	}
	return s.Audit(tx, action, b.Name)
}

// bucketNames finds buckets, whose name is their id for users.
var bucketNames = db.NameIndex{Table: "buckets", ID: "name", Index: "buckets_name"}

// Search returns buckets of an organization by words of the name.
func (s *Store) Search(ctx context.Context, caller *auth.Caller, text string, limit int) ([]db.Named, error) {
	return bucketNames.Find(s.DB.Read(ctx), caller.OrgID, text, limit)
}
