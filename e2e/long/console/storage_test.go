package console

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"

	"steward/e2e/chromium"
	"steward/e2e/installation"
	"steward/internal/waittest"
)

// hostileKey is a key of an object like that, which is not a folder.
const hostileKey = `<img src=x onerror="smuggled()">.txt`

// TestConsoleStorage creates a bucket, uploads files, previews, shares and deletes them, configures the
// bucket and deletes it.
func TestConsoleStorage(t *testing.T) {
	t.Parallel()
	s := installation.StartWithOwner(t, "sqlite")
	c := signedIn(t, s)
	c.LoadAxe()
	c.visit("/storage")
	c.See("No buckets yet")
	c.Check("console-storage-empty")
	c.Press("New bucket")
	c.Fill("name", "Bad Name")
	c.Press("Create")
	c.See("Something in the form is not right")
	c.Fill("name", "photos")
	c.Press("Create")
	c.See("S3_SECRET_ACCESS_KEY=")
	c.Press("Open photos")
	c.See("The bucket is empty")

	c.upload(map[string]string{"hello.json": `{"greeting": "hello", "list": [1, 2, 3]}`, hostileKey: hostile})
	c.See("stored")
	c.Wait("two uploads", `document.querySelectorAll(".tag.good").length === 2`)
	c.Press("hello.json")
	c.Wait("the JSON as a tree", `[...document.querySelectorAll("dialog .tree .key")].some((k) => k.innerText === "greeting")`)
	c.Check("console-storage-preview")
	c.Press("Share")
	for _, expiry := range []struct{ label, seconds string }{{"1 hour", "3600"}, {"15 minutes", "900"}, {"1 day", "86400"}, {"7 days", "604800"}} {
		c.Press(expiry.label)
		c.See("without signing in, for " + expiry.label)
		link := chromium.Evaluate[string](c.Browser, `document.querySelector("dialog .code pre").innerText`)
		if !strings.Contains(link, "X-Amz-Expires="+expiry.seconds+"&") {
			t.Errorf("%s: the link is %s", expiry.label, link)
		}
		if status, body := fetchText(t, link); status != 200 || !strings.Contains(body, "greeting") {
			t.Errorf("the shared link: %d %s", status, body)
		}
	}
	c.Check("console-storage-share")
	c.Press("Close")
	c.Press(hostileKey)
	c.See(hostile)
	c.inert("the preview of an object")
	c.Press("Close")
	c.inert("the list of objects")
	c.drops()

	b := existingBucket(s, "photos")
	b.Put("2026/a/1.txt", "one")
	b.Put("2026/a/2.txt", "two")
	b.Put("2026/b.bin", "\xff\xfe\x00")
	c.at("/storage/photos", "2026/")
	c.Press("2026/")
	c.See("b.bin")
	c.upload(map[string]string{"inside.svg": `<svg xmlns="http://www.w3.org/2000/svg" width="80" height="80"><circle cx="40" cy="40" r="30"/></svg>`})
	c.Wait("the upload", `document.querySelector(".tag.good")`)
	c.at("/storage/photos?prefix=2026/&key=2026/inside.svg", "image/svg+xml")
	c.Wait("the picture", `document.querySelector("dialog img")?.naturalWidth > 0`)
	c.at("/storage/photos?prefix=2026/&key=2026/b.bin", "neither text nor an image")
	c.at("/storage/photos?prefix=2026/", "inside.svg")
	c.Press("Delete 2026/b.bin")
	c.Fill("confirm", "b.bin")
	c.Press("Delete object")
	c.misses("b.bin")
	c.Press("Delete the folder 2026/a/")
	c.See("2 objects have keys that begin with “2026/a/”")
	c.Fill("confirm", "2026/a/")
	c.Screenshot("console-storage-delete")
	c.Press("Delete 2 objects")
	c.See("2 objects were deleted.")
	c.misses("a/")
	s.Call("GET", "/storage/objects/photos?prefix=2026/a/", nil).Want(200)
	if total := s.Call("GET", "/storage/objects/photos?prefix=2026/", nil).Want(200).Get("total"); total != 1.0 {
		t.Errorf("%v objects are left, want inside.svg", total)
	}

	c.at("/storage/photos?tab=config", "Storage tier")
	c.Fill("ttl", "86400")
	c.Fill("origins", "https://app.example.com")
	c.Fill("extra", "X-Robots-Tag: noindex")
	c.Press("Save")
	c.See("The configuration was saved")
	config := s.Call("GET", "/bucket/config/photos", nil).Want(200)
	if config.Get("ttl") != 86400.0 || config.Text("additional_headers.X-Robots-Tag") != "noindex" ||
		!strings.Contains(string(config.Body), "https://app.example.com") {
		t.Errorf("the configuration is %s", config.Body)
	}
	c.at("/storage/photos?tab=connection", "S3_ENDPOINT")
	c.at("/storage", "photos")
	c.Press("Delete the bucket photos")
	c.Fill("confirm", "photos")
	c.Press("Delete bucket")
	c.See("No buckets yet")
}

// upload chooses files with the button of the page.
func (c *console) upload(files map[string]string) {
	c.T.Helper()
	dir := c.T.TempDir()
	var paths []string
	for name, content := range files {
		path := filepath.Join(dir, name)
		c.s.Must(os.WriteFile(path, []byte(content), 0o644))
		paths = append(paths, path)
	}
	c.Do(chromedp.SetUploadFiles(chromedp.CSS(`input[name="files"]`), paths, chromedp.NodeReady))
}

// existingBucket returns a bucket with its credentials.
func existingBucket(s *installation.Steward, name string) installation.Bucket {
	s.T.Helper()
	var all struct {
		S3 []struct{ Env map[string]string }
	}
	s.Call("GET", "/resource?type=s3&name="+name, nil).Want(200).Decode(&all)
	env := all.S3[0].Env
	return installation.Bucket{Steward: s, Name: name, Access: env["S3_ACCESS_KEY_ID"], Secret: env["S3_SECRET_ACCESS_KEY"]}
}

// drops drops a folder with many files and a large one on the list. While the storage cannot be
// reached, the uploads are tried again, and fail only then.
func (c *console) drops() {
	c.T.Helper()
	dir := filepath.Join(c.T.TempDir(), "dropped")
	c.s.Must(os.MkdirAll(filepath.Join(dir, "sub"), 0o755))
	for i := range 119 {
		c.s.Must(os.WriteFile(filepath.Join(dir, "sub", fmt.Sprintf("%03d.txt", i)), []byte("x"), 0o644))
	}
	const large = 40 << 20
	c.s.Must(os.WriteFile(filepath.Join(dir, "large.bin"), make([]byte, large), 0o644))
	c.Press("Hide") // earlier uploads
	c.drop(dir)
	c.See("of 120 files stored")
	c.Screenshot("console-storage-uploads")
	waittest.Until(c.T, "all uploads", func() (string, bool) {
		shown := c.Text(`section[aria-label="Uploads"] h2`)
		return shown, shown == "120 of 120 files stored"
	})
	c.Press("Hide")
	c.See("dropped/")
	var listed struct {
		Total   int
		Objects []struct {
			Key  string
			Size int
		}
	}
	c.s.Call("GET", "/storage/objects/photos?prefix=dropped/&limit=1", nil).Want(200).Decode(&listed)
	if listed.Total != 120 || listed.Objects[0].Key != "dropped/large.bin" || listed.Objects[0].Size != large {
		c.T.Errorf("the drop has stored %+v", listed)
	}
	c.Press("Delete the folder dropped/")
	c.See("120 objects have keys that begin with “dropped/”")
	c.Fill("confirm", "dropped/")
	c.Press("Delete 120 objects")
	c.See("120 objects were deleted.")
	c.misses("dropped/")

	c.blocked("*://*:*/photos/*")
	c.upload(map[string]string{"again.txt": "stored in the end"})
	c.Wait("another try", `/try [2-4]/.test(document.body.innerText)`)
	c.blocked("")
	c.See("1 of 1 file stored")
	c.Press("again.txt")
	c.See("stored in the end")
	c.Press("Close")
}

// drop drops a file or folder of this machine on the list of objects.
func (c *console) drop(path string) {
	c.T.Helper()
	c.Wait("the list", `document.querySelector('section[aria-label="Objects"]')`)
	at := chromium.Evaluate[[]float64](c.Browser, `(() => { const r = document.querySelector('section[aria-label="Objects"]').getBoundingClientRect(); return [r.x + 30, r.y + 10]; })()`)
	for _, kind := range []input.DispatchDragEventType{input.DispatchDragEventTypeDragEnter, input.DispatchDragEventTypeDragOver, input.DispatchDragEventTypeDrop} {
		chromium.Call(c.Browser, input.DispatchDragEvent, input.DispatchDragEventParams{
			Type: kind, X: at[0], Y: at[1], Data: &input.DragData{Items: []*input.DragDataItem{}, Files: []string{path}, DragOperationsMask: 1},
		})
	}
}

// TestConsoleStorageOnReplicas uploads with the console of one replica, on PostgreSQL and a shared
// blob store, and sees and downloads that with the console of another. What the other one deletes
// is gone at the first.
func TestConsoleStorageOnReplicas(t *testing.T) {
	t.Parallel()
	s, _ := installation.StartOnCluster(t, "postgres")
	other := s.Replica()
	s.NewBucket("photos")
	b, _ := s.Invite("grace@example.com", "member")
	here, there := newConsole(t, s), newConsole(t, other)
	for _, c := range []*console{here, there} {
		c.visit("/")
		c.signInAs(b.Email, b.Password)
		c.See("Overview")
	}
	here.at("/storage/photos", "The bucket is empty")
	here.upload(map[string]string{"hello.json": `{"greeting": "from the first replica"}`, "second.txt": "two"})
	here.See("2 of 2 files stored")

	there.at("/storage/photos", "hello.json")
	there.Press("hello.json")
	there.See("from the first replica")
	link := chromium.Evaluate[string](there.Browser, `document.querySelector("dialog a[download]").href`)
	if !strings.HasPrefix(link, other.Addresses().S3URL) {
		t.Errorf("the download is from %s", link)
	}
	if status, body := fetchText(t, link); status != http.StatusOK || body != `{"greeting": "from the first replica"}` {
		t.Errorf("the download: %d %s", status, body)
	}
	there.Press("Close")
	there.Press("Delete second.txt")
	there.Fill("confirm", "second.txt")
	there.Press("Delete object")
	there.misses("second.txt")
	here.at("/storage/photos", "hello.json")
	here.misses("second.txt")
	here.Clean()
	there.Clean()
}

// fetchText returns what a URL answers without credentials.
func fetchText(t *testing.T, address string) (status int, body string) {
	t.Helper()
	got, err := installation.Client.Get(address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = got.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(got.Body, 1<<20))
	if err != nil {
		t.Fatal(err)
	}
	return got.StatusCode, string(text)
}
