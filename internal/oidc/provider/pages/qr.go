package pages

import (
	"fmt"
	"image/color"
	"strings"

	"github.com/boombuler/barcode/qr"
)

// QR is a QR code for a page to draw: dark squares, one unit wide, inside a square of Size units.
type QR struct {
	Size int
	// Path holds an SVG path's data.
	Path string
}

// quietZone is the light border, in units, that scanners need around a QR code.
const quietZone = 4

// NewQR encodes text as a QR code.
func NewQR(text string) (QR, error) {
	code, err := qr.Encode(text, qr.M, qr.Auto)
	if err != nil {
		return QR{}, fmt.Errorf("encode QR code: %w", err)
	}
	var path strings.Builder
	size := code.Bounds().Dx()
	for y := range size {
		for x := range size {
			if code.At(x, y) == color.Black {
				fmt.Fprintf(&path, "M%d %dh1v1h-1z", x+quietZone, y+quietZone)
			}
		}
	}
	return QR{Size: size + 2*quietZone, Path: path.String()}, nil
}
