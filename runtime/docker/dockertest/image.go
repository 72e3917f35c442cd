package dockertest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/docker/docker/api/types/image"

	"healthd/runtime/enginetest"
)

func (e *Engine) importImage() error {
	fs, err := enginetest.ImageLayer()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	name, tag, _ := strings.Cut(Image, ":")
	body, err := e.client.ImageImport(ctx, image.ImportSource{Source: bytes.NewReader(fs), SourceName: "-"}, name,
		image.ImportOptions{Tag: tag, Changes: []string{"ENV PATH=/bin", `CMD ["/bin/testserver"]`}})
	if err != nil {
		return fmt.Errorf("cannot import the test image: %w", err)
	}
	defer body.Close()
	out, err := io.ReadAll(body)
	if err != nil {
		return fmt.Errorf("cannot import the test image: %w", err)
	}
	if bytes.Contains(out, []byte(`"error"`)) {
		return fmt.Errorf("cannot import the test image: %s", out)
	}
	return e.nameImage(ctx)
}

// nameImage gives the only image the name that containers are made of: Podman 4.3 gives another
// one to an import.
func (e *Engine) nameImage(ctx context.Context) error {
	if !usePodman {
		return nil
	}
	images, err := e.client.ImageList(ctx, image.ListOptions{})
	if err == nil && len(images) != 1 {
		err = fmt.Errorf("there are %d images", len(images))
	}
	if err == nil {
		err = e.client.ImageTag(ctx, images[0].ID, "docker.io/library/"+Image)
	}
	if err != nil {
		return fmt.Errorf("cannot name the test image: %w", err)
	}
	return nil
}
