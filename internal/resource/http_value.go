package resource

import (
	"context"
	"encoding/base64"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/page"
	"steward/internal/web"
)

// maxKey caps a requested key, in bytes.
const maxKey = 4096

// KeyInput names a key in a store.
type KeyInput struct {
	nameInput
	Key      string `query:"key" required:"true" maxLength:"6000" doc:"The key, at most 4,096 bytes" example:"session:1"`
	Encoding string `query:"encoding" enum:"text,base64" default:"text" doc:"How key and item are written; base64 if they are not UTF-8 or have a character U+0000, with the alphabet of URLs or the standard one"`
}

// key decodes the key, or returns Invalid.
func (in *KeyInput) key() (string, error) {
	key, err := in.decode("query.key", in.Key)
	if err == nil && len(key) > maxKey {
		err = errs.InvalidField("query.key", "expected at most %d bytes", maxKey)
	}
	return key, err
}

// decode decodes a parameter, or returns Invalid.
func (in *KeyInput) decode(location, text string) (string, error) {
	if in.Encoding != "base64" {
		return text, nil
	}
	for _, encoding := range []*base64.Encoding{base64.StdEncoding, base64.RawURLEncoding, base64.URLEncoding} {
		if raw, err := encoding.DecodeString(text); err == nil {
			return string(raw), nil
		}
	}
	return "", errs.InvalidField(location, "expected base64")
}

// ValueInput selects a page of a value.
type ValueInput struct {
	KeyInput
	Cursor string `query:"cursor" maxLength:"64" doc:"Cursor of the page, from next of the page before" example:"100"`
	Limit  int    `query:"limit" default:"100" minimum:"1" maximum:"1000" doc:"Maximum number of items to return"`
}

// Value serves GET /resource/{orgId}/{region}/{name}/value.
func (h *Handler) Value(ctx context.Context, in *ValueInput) (Value, error) {
	key, err := in.key()
	if err != nil {
		return Value{}, err
	}
	engine, p, err := h.openStore(ctx, in.nameInput)
	if err != nil {
		return Value{}, err
	}
	return within(ctx, p, func(ctx context.Context) (Value, error) {
		return ReadValue(ctx, engine, p, ValueQuery{Key: key, Cursor: in.Cursor, Limit: in.Limit})
	})
}

// SetValue serves PUT /resource/{orgId}/{region}/{name}/value.
func (h *Handler) SetValue(ctx context.Context, in *struct {
	KeyInput
	Body NewValue
},
) (Value, error) {
	key, err := in.key()
	if err != nil {
		return Value{}, err
	}
	var faults errs.Faults
	in.Body.Check(&faults)
	if err := faults.Err(); err != nil {
		return Value{}, err
	}
	engine, p, err := h.openStore(ctx, in.nameInput)
	if err != nil {
		return Value{}, err
	}
	v, err := within(ctx, p, func(ctx context.Context) (Value, error) {
		return SetValue(ctx, engine, p, key, in.Body)
	})
	if err != nil {
		return Value{}, err
	}
	action := "set"
	if in.Body.Item == nil {
		action = "expire"
	}
	return v, h.auditKey(ctx, p, action, key)
}

// DeleteValueInput names a key, or one item in its value.
type DeleteValueInput struct {
	KeyInput
	Item page.Opt[string] `query:"item" nullable:"false" doc:"Delete this item alone: field of a hash, index of a list, member of a set or sorted set, id of an entry of a stream" example:"name"`
}

// DeleteValue serves DELETE /resource/{orgId}/{region}/{name}/value.
func (h *Handler) DeleteValue(ctx context.Context, in *DeleteValueInput) (web.None, error) {
	key, err := in.key()
	if err != nil {
		return web.None{}, err
	}
	item := in.Item.Ptr()
	if item != nil {
		text, err := in.decode("query.item", *item)
		if err != nil {
			return web.None{}, err
		}
		item = &text
	}
	engine, p, err := h.openStore(ctx, in.nameInput)
	if err != nil {
		return web.None{}, err
	}
	_, err = within(ctx, p, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, RemoveValue(ctx, engine, p, key, item)
	})
	if err != nil {
		return web.None{}, err
	}
	action := "unset"
	if item != nil {
		action = "set"
	}
	return web.None{}, h.auditKey(ctx, p, action, key)
}

// maxAudited cuts keys in the audit log, in bytes.
const maxAudited = 256

// auditKey records that a key was changed. The change is already made, so it ignores cancellation.
func (h *Handler) auditKey(ctx context.Context, p *Provisioned, action, key string) error {
	shown := key[:min(len(key), maxAudited)]
	if !utf8.ValidString(shown) || strings.ContainsFunc(shown, unicode.IsControl) {
		shown = strconv.QuoteToASCII(shown)
	}
	return h.Manager.Store.DB.Write(context.WithoutCancel(ctx), func(tx *db.Tx) error {
		return h.Manager.Store.Audit.Record(tx, p.Type.action(action), p.ID+"/"+shown)
	})
}
