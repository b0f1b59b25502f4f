package object

import (
	"cmp"
	"context"
	"strings"
	"time"

	"steward/internal/audit"
	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/page"
	"steward/internal/stamp"
	"steward/internal/web"
)

// Handler has one method for each route in this package.
type Handler struct {
	Buckets *Buckets
	Index   *Index
	Totals  *Totals
	// Audit records who did something, in the same transaction.
	Audit *audit.Store
	// Presign returns a URL on the S3 listener for the method GET or PUT. It expires.
	Presign func(b *Bucket, key, method string, expires time.Duration) (string, error)
	// Expiry is the default lifetime for presigned URLs.
	Expiry time.Duration
}

// bucket returns a bucket in the caller's organization, or NotFound.
func (h *Handler) bucket(ctx context.Context, name string) (*Bucket, error) {
	b, err := h.Buckets.ByName(ctx, name)
	if err == nil && b.OrgID != auth.From(ctx).OrgID {
		return nil, noBucket(name)
	}
	return b, err
}

// Entry is an object in a list.
type Entry struct {
	_ struct{} `goName:"Object"`

	BucketName   string     `json:"bucket_name" example:"invoices"`
	Key          string     `json:"key" example:"2026/11/0042.pdf"`
	Size         int64      `json:"size" doc:"In bytes" example:"31"`
	ETag         string     `json:"etag,omitempty" example:"9e107d9d372bb6826bd81d3542a419d6"`
	ContentType  string     `json:"content_type,omitempty" example:"application/json"`
	LastModified stamp.Time `json:"last_modified" format:"date-time" example:"2026-11-15T08:30:00.123Z"`
}

// Listing is the response to GET /storage/objects/{bucket}.
type Listing struct {
	_ struct{} `goName:"ObjectListing"`

	Objects []Entry     `json:"objects"`
	Total   int64       `json:"total" doc:"Number of all objects with the prefix"`
	Prefix  string      `json:"prefix" example:"2026/"`
	Limit   int         `json:"limit"`
	Offset  int         `json:"offset"`
	Next    page.Cursor `json:"next,omitempty" doc:"Cursor of the next page; missing on the last one" example:"WyIyMDI2LzExLzAwNDIucGRmIl0"`
}

// Objects handles GET /storage/objects/{bucket}.
func (h *Handler) Objects(ctx context.Context, in *struct {
	Bucket string `path:"bucket" example:"invoices"`
	Prefix string `query:"prefix" doc:"Only keys that begin with it" example:"2026/"`
	page.Paging
},
) (Listing, error) {
	list := Listing{Objects: []Entry{}, Prefix: in.Prefix, Limit: in.Limit, Offset: in.Offset}
	b, err := h.bucket(ctx, in.Bucket)
	if err != nil {
		return list, err
	}
	found, err := h.page(ctx, b, in.Prefix, in.Paging)
	if err != nil {
		return list, err
	}
	list.Total = found.Total
	for _, o := range found.Objects {
		list.Objects = append(list.Objects, Entry{
			BucketName: b.Name, Key: o.Key, Size: o.Size, ETag: o.ETag, ContentType: o.ContentType, LastModified: o.ModifiedAt,
		})
	}
	if n := len(found.Objects); found.More && n > 0 {
		list.Next = page.NewCursor(found.Objects[n-1].Key)
	}
	return list, nil
}

// page returns a page by cursor, or by offset without one.
func (h *Handler) page(ctx context.Context, b *Bucket, prefix string, p page.Paging) (CountedPage, error) {
	if p.Cursor == "" {
		return h.Index.Page(ctx, b, prefix, int64(p.Offset), p.Limit)
	}
	var last string
	if err := p.Cursor.Scan(&last); err != nil {
		return CountedPage{}, err
	}
	return h.Index.PageAfter(ctx, b, prefix, last, p.Limit)
}

// Deleted is the response to DELETE /storage/objects/{bucket}.
type Deleted struct {
	_ struct{} `goName:"DeletedObjects"`

	Count int64 `json:"deleted_count" example:"3"`
}

// DeleteObjects handles DELETE /storage/objects/{bucket}.
func (h *Handler) DeleteObjects(ctx context.Context, in *struct {
	Bucket string `path:"bucket" example:"invoices"`
	Key    string `query:"key" doc:"Key of one object" example:"2026/11/0042.pdf"`
	Prefix string `query:"prefix" doc:"All objects whose keys begin with it" example:"2026/"`
},
) (Deleted, error) {
	b, err := h.bucket(ctx, in.Bucket)
	if err != nil {
		return Deleted{}, err
	}
	if (in.Key == "") == (in.Prefix == "") {
		return Deleted{}, errs.InvalidField("query.key", "expected either key or prefix, not empty")
	}
	origin := originOf(ctx)
	if in.Prefix != "" {
		n, err := h.Index.DeletePrefix(ctx, b, in.Prefix, origin, func(tx *db.Tx) error {
			return h.Audit.Record(tx, "object.delete", b.Name+"/"+in.Prefix+"*")
		})
		return Deleted{Count: n}, err
	}
	return h.deleteKey(ctx, b, in.Key, origin)
}

func (h *Handler) deleteKey(ctx context.Context, b *Bucket, key string, origin Origin) (d Deleted, err error) {
	err = h.Index.DB.Write(ctx, func(tx *db.Tx) error {
		gone, err := h.Index.Delete(tx.Context(), b, DeleteRequest{Keys: []string{key}, Origin: origin})
		if err != nil {
			return err
		}
		d.Count = int64(len(gone))
		if d.Count == 0 {
			return nil
		}
		return h.Audit.Record(tx, "object.delete", b.Name+"/"+key)
	})
	return d, err
}

func originOf(ctx context.Context) Origin {
	r := web.Request(ctx)
	return Origin{RequestID: r.ID, Address: r.RemoteAddr}
}

// Presigned is the response to GET /storage/presign/{bucket}.
type Presigned struct {
	_ struct{} `goName:"PresignedURL"`

	URL    string `json:"presigned_url" example:"https://s3.example.com/invoices/2026/11/0042.pdf?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Expires=3600&X-Amz-Signature=5f2b"`
	Expiry int64  `json:"expiry_seconds" doc:"How long the URL is valid" example:"3600"`
}

// PresignInput selects the object and the operation to presign.
type PresignInput struct {
	Bucket    string `path:"bucket" example:"invoices"`
	Key       string `query:"key" required:"true" doc:"Key of the object" example:"2026/11/0042.pdf"`
	Operation string `query:"operation" default:"download" enum:"download,upload"`
	Expiry    int64  `query:"expiry_seconds" minimum:"1" maximum:"604800" doc:"How long the URL is to be valid. Default: the server's presign-expiry" example:"3600"`
}

// PresignURL handles GET /storage/presign/{bucket}.
func (h *Handler) PresignURL(ctx context.Context, in *PresignInput) (Presigned, error) {
	b, err := h.bucket(ctx, in.Bucket)
	if err != nil {
		return Presigned{}, err
	}
	if checkKey(in.Key) != nil {
		return Presigned{}, errs.InvalidField("query.key", "expected 1 to %d bytes of UTF-8", MaxKey)
	}
	for segment := range strings.SplitSeq(in.Key, "/") {
		if segment == "." || segment == ".." {
			return Presigned{}, errs.InvalidField("query.key", "HTTP clients remove the segments . and .. from URLs, and with them the signature's validity")
		}
	}
	method := "GET"
	if in.Operation == "upload" {
		if !auth.From(ctx).May(auth.WriteObjects) {
			return Presigned{}, errs.New(errs.Forbidden, "presigned URLs for uploads need the right to write objects")
		}
		method = "PUT"
	}
	expiry := cmp.Or(time.Duration(in.Expiry)*time.Second, h.Expiry)
	url, err := h.Presign(b, in.Key, method, expiry)
	return Presigned{URL: url, Expiry: int64(expiry / time.Second)}, err
}

// Stats is the response to GET /storage/stats/{bucket}.
type Stats struct {
	_ struct{} `goName:"BucketStats"`

	BucketName  string      `json:"bucket_name" example:"invoices"`
	ObjectCount int64       `json:"object_count" example:"1200"`
	TotalSize   int64       `json:"total_size" doc:"In bytes" example:"57855600"`
	LastEventAt *stamp.Time `json:"last_event_at,omitempty" format:"date-time" doc:"When an object last changed" example:"2026-11-15T08:30:00.123Z"`
}

// Stats handles GET /storage/stats/{bucket}.
func (h *Handler) Stats(ctx context.Context, in *struct {
	Bucket string `path:"bucket" example:"invoices"`
},
) (Stats, error) {
	b, err := h.bucket(ctx, in.Bucket)
	if err != nil {
		return Stats{}, err
	}
	u, err := h.Totals.Bucket(ctx, b)
	return Stats{BucketName: b.Name, ObjectCount: u.Objects, TotalSize: u.Bytes, LastEventAt: u.LastEventAt}, err
}

// Analytics handles GET /storage/analytics.
func (h *Handler) Analytics(ctx context.Context, in *struct {
	Days int `query:"days" default:"180" minimum:"1" maximum:"3650" doc:"Number of days to return" example:"180"`
},
) (Analytics, error) {
	return h.Totals.Analytics(ctx, auth.From(ctx).OrgID, in.Days)
}

// BucketConfig is a bucket's configuration in the API.
type BucketConfig struct {
	BucketName        string            `json:"bucket_name" example:"invoices"`
	StorageTier       *Tier             `json:"storage_tier" doc:"STANDARD, INFREQUENT_ACCESS or ARCHIVE; the tier of new objects" example:"STANDARD"`
	TTL               *int64            `json:"ttl" doc:"Seconds after which objects are deleted" example:"2592000"`
	Public            *bool             `json:"public" doc:"Whether anybody may read objects"`
	CacheControl      *string           `json:"cache_control" doc:"Cache-Control of objects that have none" example:"public, max-age=3600"`
	CORS              *CORS             `json:"cors"`
	AdditionalHeaders map[string]string `json:"additional_headers" nullable:"true" doc:"Extra headers of responses with objects" example:"{\"X-Robots-Tag\":\"noindex\"}"`
	BucketLocation    *string           `json:"bucket_location" doc:"Region of the bucket" example:"local"`

	etag string
}

// ETag returns the row's version.
func (c BucketConfig) ETag() string { return c.etag }

func configOf(b *Bucket) BucketConfig {
	c := b.Config
	return BucketConfig{
		BucketName: b.Name, StorageTier: c.StorageTier, TTL: c.TTL, Public: c.Public, CacheControl: c.CacheControl, CORS: c.CORS,
		AdditionalHeaders: c.AdditionalHeaders, BucketLocation: db.Null(b.Region), etag: b.ETag(),
	}
}

// Config handles GET /bucket/config/{bucket}.
func (h *Handler) Config(ctx context.Context, in *struct {
	Bucket string `path:"bucket" example:"invoices"`
},
) (BucketConfig, error) {
	b, err := h.bucket(ctx, in.Bucket)
	if err != nil {
		return BucketConfig{}, err
	}
	return configOf(b), nil
}

// UpdateConfig handles PUT /bucket/config/{bucket}.
func (h *Handler) UpdateConfig(ctx context.Context, in *struct {
	Bucket string `path:"bucket" example:"invoices"`
	page.IfMatch
	Body Patch
},
) (BucketConfig, error) {
	b, err := h.bucket(ctx, in.Bucket)
	if err != nil {
		return BucketConfig{}, err
	}
	if b, err = h.Buckets.UpdateConfig(ctx, b, in.Body, in.IfMatch); err != nil {
		return BucketConfig{}, err
	}
	return configOf(b), nil
}

// ResetConfig handles DELETE /bucket/config/{bucket}.
func (h *Handler) ResetConfig(ctx context.Context, in *struct {
	Bucket string `path:"bucket" example:"invoices"`
	page.IfMatch
},
) (web.None, error) {
	b, err := h.bucket(ctx, in.Bucket)
	if err != nil {
		return web.None{}, err
	}
	return web.None{}, h.Buckets.ResetConfig(ctx, b, in.IfMatch)
}

// FolderEntry is an object in a folder.
type FolderEntry struct {
	_ struct{} `goName:"FolderObject"`

	Key          string     `json:"key" example:"2026/11/0042.pdf"`
	Size         int64      `json:"size" doc:"In bytes" example:"31"`
	LastModified stamp.Time `json:"last_modified" format:"date-time" example:"2026-11-15T08:30:00.123Z"`
}

// FolderView is the response to GET /storage/folders/{bucket}.
type FolderView struct {
	_ struct{} `goName:"FolderListing"`

	Prefix  string        `json:"prefix" example:"2026/"`
	Folders []Folder      `json:"folders"`
	Objects []FolderEntry `json:"objects"`
	Next    page.Cursor   `json:"next,omitempty" doc:"Cursor of the next page; missing on the last one" example:"WyIyMDI2LzExLzAwNDIucGRmIl0"`
}

// Folders handles GET /storage/folders/{bucket}.
func (h *Handler) Folders(ctx context.Context, in *struct {
	Bucket string      `path:"bucket" example:"invoices"`
	Prefix string      `query:"prefix" doc:"What stands directly below it is returned" example:"2026/"`
	Limit  int         `query:"limit" default:"100" minimum:"1" maximum:"1000" doc:"Maximum number of folders and objects"`
	Cursor page.Cursor `query:"cursor" doc:"Cursor of the next page" example:"WzE3NjMxOTMwMDAxMjMsInRocmRfMDFqY3EiXQ"`
},
) (FolderView, error) {
	view := FolderView{Prefix: in.Prefix, Folders: []Folder{}, Objects: []FolderEntry{}}
	b, err := h.bucket(ctx, in.Bucket)
	if err != nil {
		return view, err
	}
	last := ""
	if in.Cursor != "" {
		if err := in.Cursor.Scan(&last); err != nil {
			return view, err
		}
	}
	found, err := h.Index.Folders(ctx, b, in.Prefix, last, in.Limit)
	if err != nil {
		return view, err
	}
	view.Folders = append(view.Folders, found.Folders...)
	for _, o := range found.Objects {
		view.Objects = append(view.Objects, FolderEntry{Key: o.Key, Size: o.Size, LastModified: o.ModifiedAt})
	}
	if found.Next != "" {
		view.Next = page.NewCursor(found.Next)
	}
	return view, nil
}
