package app

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"steward/internal/app/config"
	"steward/internal/mail"
)

func (p program) mailPreviewCommand() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:   "preview",
		Short: "Print all mail with examples",
		Long: `Print the text of all mail that the server sends, with examples. With --dir the texts are written into a
directory instead, together with the HTML, to be opened in a browser. Nothing is sent.`,
		Args: config.NoArguments,
		RunE: func(*cobra.Command, []string) error {
			if dir != "" {
				return writePreviews(dir)
			}
			return p.printPreviews()
		},
	}
	cmd.Flags().StringVar(&dir, "dir", "", "`directory` to write the mail to, as text and HTML")
	return cmd
}

func (p program) printPreviews() error {
	for _, preview := range mail.Previews() {
		text, err := preview.Text()
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(p.Out, "=== %s\nSubject: %s\n\n%s\n", preview.Name, preview.Subject, text); err != nil {
			return err
		}
	}
	return nil
}

func writePreviews(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("create the directory: %w", err)
	}
	for _, preview := range mail.Previews() {
		text, err := preview.Text()
		if err != nil {
			return err
		}
		html, err := preview.HTML()
		if err != nil {
			return err
		}
		for ending, content := range map[string]string{".txt": text, ".html": html} {
			if err := os.WriteFile(filepath.Join(dir, preview.Name+ending), []byte(content), 0o644); err != nil {
				return fmt.Errorf("write a preview: %w", err)
			}
		}
	}
	return nil
}
