package s3

import (
	"context"
	"encoding/xml"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/gofiber/fiber/v3"
	"github.com/versity/versitygw/backend"
	"github.com/versity/versitygw/s3err"
	"github.com/versity/versitygw/s3response"

	"steward/internal/object"
)

// The protocol hands tags over as a map. Their order is taken from the request, and put back into
// the response.

// listedTags is the request's local value with the tags that are the response.
const listedTags = "steward-tags"

// parseTags returns the tags of an X-Amz-Tagging header.
func parseTags(header string) (object.Tags, error) {
	values, err := backend.ParseObjectTags(header)
	if err != nil {
		return nil, err
	}
	var keys []string
	for pair := range strings.SplitSeq(header, "&") {
		key, _, _ := strings.Cut(pair, "=")
		if key, err := url.QueryUnescape(key); err == nil {
			keys = append(keys, key)
		}
	}
	return inOrder(values, keys), nil
}

// keysOf returns the keys of the tags in an XML document.
func keysOf(document []byte) (keys []string) {
	var parsed s3response.Tagging
	if err := xml.Unmarshal(document, &parsed); err != nil {
		return nil
	}
	for _, tag := range parsed.TagSet.Tags {
		keys = append(keys, tag.Key)
	}
	return keys
}

// inOrder returns tags in the order of some keys, and then those with other keys.
func inOrder(values map[string]string, keys []string) (tags object.Tags) {
	left := maps.Clone(values)
	for _, key := range append(keys, slices.Sorted(maps.Keys(values))...) {
		value, ok := left[key]
		if !ok {
			continue
		}
		delete(left, key)
		tags = append(tags, object.Tag{Key: key, Value: value})
	}
	return tags
}

func mapOf(tags object.Tags) map[string]string {
	values := map[string]string{}
	for _, tag := range tags {
		values[tag.Key] = tag.Value
	}
	return values
}

// GetObjectTagging returns the tags of an object.
func (g *gateway) GetObjectTagging(ctx context.Context, bucket, key, version string) (map[string]string, error) {
	r, o, err := g.get(ctx, toWrite, &bucket, &key, &version)
	if err != nil {
		return nil, err
	}
	r.http.SetUserValue(listedTags, o.Attributes.Tags)
	return mapOf(o.Attributes.Tags), nil
}

// sendTags puts the tags in a response into their order.
func sendTags(ctx fiber.Ctx) error {
	tags, ok := ctx.Locals(listedTags).(object.Tags)
	if !ok || ctx.Response().StatusCode() != http.StatusOK {
		return nil
	}
	out := s3response.Tagging{TagSet: s3response.TagSet{Tags: []s3response.Tag{}}}
	for _, tag := range tags {
		out.TagSet.Tags = append(out.TagSet.Tags, s3response.Tag(tag))
	}
	body, err := xml.Marshal(out)
	if err != nil {
		return err
	}
	ctx.Response().SetBody(append([]byte(xml.Header), body...))
	return nil
}

// PutObjectTagging replaces the tags of an object.
func (g *gateway) PutObjectTagging(ctx context.Context, bucket, key, version string, tags map[string]string) error {
	r, err := g.begin(ctx, toWrite, &bucket)
	if err != nil {
		return err
	}
	name, err := keyOf(&key)
	if err != nil {
		return err
	}
	if err := checkVersion(&version); err != nil {
		return err
	}
	limited, cancel := g.limited(r)
	defer cancel()
	_, err = g.index.SetTags(limited, r.bucket, name, inOrder(tags, keysOf(r.http.Request.Body())), r.Origin)
	return g.apiError("set tags", err, s3err.ErrNoSuchKey)
}

// DeleteObjectTagging removes the tags of an object.
func (g *gateway) DeleteObjectTagging(ctx context.Context, bucket, key, version string) error {
	return g.PutObjectTagging(ctx, bucket, key, version, nil)
}
