package chromium

import (
	"os"
	"path/filepath"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

// Picture captures a screen of the given width for the documentation, if `make screenshots` asks for it.
func (b *Browser) Picture(file string, width int64) {
	b.T.Helper()
	if os.Getenv("STEWARD_TEST_SCREENSHOTS") == "" {
		return
	}
	quality := int64(80)
	b.Do(chromedp.EmulateViewport(width, 832))
	shot := Call(b, page.CaptureScreenshot, page.CaptureScreenshotParams{
		Format: page.CaptureScreenshotFormatWebp, Quality: &quality,
	})
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		b.T.Fatal(err)
	}
	if err := os.WriteFile(file, shot.Data, 0o644); err != nil {
		b.T.Fatal(err)
	}
}
