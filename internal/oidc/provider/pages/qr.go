package pages

import (
	"fmt"
	"image/color"
	"strings"

	"github.com/boombuler/barcode/qr"
)

// QR is a QR code to draw: dark squares, each one unit wide, in a square Size units wide.
type QR struct {
	Size int
	// Path is the data for an SVG path.
	Path string
}

// quietZone is the light border around a QR code, in units. Scanners need it.
const quietZone = 4

// NewQR returns a text's QR code.
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
