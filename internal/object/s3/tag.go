package s3

import (
	"encoding/xml"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"

	"steward/internal/object"
)

// Limits on tags, as in S3. Lengths are in characters.
const (
	maxTags     = 10
	maxTagKey   = 128
	maxTagValue = 256
)

// tagEntries allows more tags than checkTags, which says what is wrong.
var tagEntries = entries{"Tag", 10 * maxTags}

// tagging is the XML for GetObjectTagging and PutObjectTagging.
type tagging struct {
	XMLName xml.Name     `xml:"Tagging"`
	Tags    []object.Tag `xml:"TagSet>Tag"`
}

// parseTags parses an X-Amz-Tagging header.
func parseTags(header string) (tags object.Tags, err error) {
	for pair := range strings.SplitSeq(header, "&") {
		if pair == "" {
			continue
		}
		key, value, _ := strings.Cut(pair, "=")
		var tag object.Tag
		if tag.Key, err = url.QueryUnescape(key); err == nil {
			tag.Value, err = url.QueryUnescape(value)
		}
		if err != nil || key == "" {
			return nil, invalidArgument("The header 'x-amz-tagging' shall be encoded as UTF-8 then URLEncoded URL query parameters without tag name duplicates.")
		}
		tags = append(tags, tag)
	}
	return tags, checkTags(tags)
}

func checkTags(tags object.Tags) error {
	if len(tags) > maxTags {
		return failf("BadRequest", "Object tags cannot be greater than %d", maxTags)
	}
	seen := map[string]bool{}
	for _, tag := range tags {
		switch {
		case tag.Key == "" || !isTagText(tag.Key, maxTagKey):
			return failf("InvalidTag", "The TagKey you have provided is invalid")
		case !isTagText(tag.Value, maxTagValue):
			return failf("InvalidTag", "The TagValue you have provided is invalid")
		case seen[tag.Key]:
			return failf("InvalidTag", "Cannot provide multiple Tags with the same key")
		}
		seen[tag.Key] = true
	}
	return nil
}

func isTagText(s string, limit int) bool {
	return isText(s) && utf8.RuneCountInString(s) <= limit && !strings.ContainsFunc(s, func(c rune) bool {
		return !unicode.IsLetter(c) && !unicode.IsNumber(c) && !unicode.IsSpace(c) && !unicode.IsMark(c) && !strings.ContainsRune("+-=._:/@", c)
	})
}

// getObjectTagging returns an object's tags in their stored order.
func (r *request) getObjectTagging() (any, error) {
	o, err := r.find()
	if err != nil {
		return nil, err
	}
	return struct {
		XMLName xml.Name `xml:"http://s3.amazonaws.com/doc/2006-03-01/ Tagging"`
		TagSet  struct {
			Tag []object.Tag
		}
	}{TagSet: struct{ Tag []object.Tag }{o.Attributes.Tags}}, nil
}

func (r *request) putObjectTagging() (any, error) {
	return nil, r.message(func(text []byte) error {
		tags, err := decodeTags(text)
		if err != nil {
			return err
		}
		return r.setTags(tags)
	})
}

func decodeTags(text []byte) (object.Tags, error) {
	var in tagging
	if err := decodeXML(text, &in, "Tagging", tagEntries); err != nil {
		return nil, err
	}
	return in.Tags, checkTags(in.Tags)
}

func (r *request) deleteObjectTagging() (any, error) { return nil, r.setTags(nil) }

func (r *request) setTags(tags object.Tags) error {
	if err := checkVersion(r.query.Get("versionId")); err != nil {
		return err
	}
	_, err := r.server.Index.SetTags(r.limited(), r.bucket, r.key, tags, r.origin())
	return err
}
