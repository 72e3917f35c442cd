package main

import (
	"archive/tar"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	docker "github.com/moby/docker-image-spec/specs-go/v1"
	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	oci "github.com/opencontainers/image-spec/specs-go/v1"
)

const repository = "healthd"

// builtImage is an image of one architecture: its three blobs, and what the index says of it.
type builtImage struct {
	arch                    string
	layer, config, manifest blob
	platform                oci.Platform
}

type blob struct {
	oci.Descriptor
	data []byte
}

func newBlob(mediaType string, data []byte) blob {
	return blob{oci.Descriptor{MediaType: mediaType, Digest: digest.FromBytes(data), Size: int64(len(data))}, data}
}

func newJSON(mediaType string, v any) (blob, error) {
	data, err := json.Marshal(v)
	return newBlob(mediaType, data), err
}

func newImage(r release, arch string, layer []byte) (*builtImage, error) {
	img := &builtImage{arch: arch, layer: newBlob(oci.MediaTypeImageLayer, layer), platform: oci.Platform{Architecture: arch, OS: "linux"}}
	if arch == "arm64" {
		img.platform.Variant = "v8"
	}
	var err error
	if img.config, err = newJSON(oci.MediaTypeImageConfig, imageConfig(r, img)); err != nil {
		return nil, err
	}
	img.manifest, err = newJSON(oci.MediaTypeImageManifest, oci.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: oci.MediaTypeImageManifest,
		Config: img.config.Descriptor, Layers: []oci.Descriptor{img.layer.Descriptor},
	})
	return img, err
}

// imageConfig says how the image is run.
func imageConfig(r release, img *builtImage) docker.DockerOCIImage {
	return docker.DockerOCIImage{
		Image: oci.Image{
			Created: &r.created, Platform: img.platform,
			RootFS:  oci.RootFS{Type: "layers", DiffIDs: []digest.Digest{img.layer.Digest}},
			History: []oci.History{{Created: &r.created, CreatedBy: "release/image", Comment: "healthd " + r.version}},
		},
		Config: docker.DockerOCIImageConfig{
			ImageConfig: oci.ImageConfig{
				Env: []string{"PATH=/"}, Entrypoint: []string{"/healthd"}, Cmd: []string{"run"}, WorkingDir: "/", StopSignal: "SIGTERM",
				Labels: map[string]string{
					oci.AnnotationTitle: "healthd", oci.AnnotationDescription: "container health supervisor for Docker and containerd hosts",
					oci.AnnotationVersion: r.version, oci.AnnotationRevision: r.commit, oci.AnnotationLicenses: "Apache-2.0",
					oci.AnnotationCreated: r.created.Format(time.RFC3339),
					// Another healthd on the host leaves this one alone, unless somebody sets the label.
					"healthd.enable": "false",
				},
			},
			DockerOCIImageConfigExt: docker.DockerOCIImageConfigExt{Healthcheck: &docker.HealthcheckConfig{
				Test: []string{"CMD", "/healthd", "live"}, Interval: 30 * time.Second, Timeout: 15 * time.Second, StartPeriod: 30 * time.Second, Retries: 3,
			}},
		},
	}
}

// tags are the names that an image gets.
func (r release) tags() []string { return []string{r.version, "latest"} }

// writeArchive writes an OCI layout of the images as a tar. With forDocker there is one image, and the list of
// images that "docker load" of engines before 25 wants.
func writeArchive(w io.Writer, r release, forDocker bool, images []*builtImage) error {
	index, err := indexOf(r, images)
	if err != nil {
		return err
	}
	files := []file{{"blobs/", 0o755, nil}, {"blobs/sha256/", 0o755, nil}}
	for _, b := range blobsOf(index, images) {
		files = append(files, file{blobPath(b), 0o644, b.data})
	}
	top, err := json.Marshal(index.top)
	if err != nil {
		return err
	}
	layout, err := json.Marshal(oci.ImageLayout{Version: oci.ImageLayoutVersion})
	if err != nil {
		return err
	}
	files = append(files, file{"index.json", 0o644, top}, file{oci.ImageLayoutFile, 0o644, layout})
	if forDocker {
		list, err := dockerList(r, images[0])
		if err != nil {
			return err
		}
		files = append(files, file{"manifest.json", 0o644, list})
	}
	archive := tar.NewWriter(w)
	for _, f := range files {
		if err := addFile(archive, f, r.created); err != nil {
			return fmt.Errorf("cannot add %s: %w", f.name, err)
		}
	}
	return archive.Close()
}

// index is the entry to a layout. That of several images leads to one more blob, the index of these.
type index struct {
	top  oci.Index
	more []blob
}

func indexOf(r release, images []*builtImage) (index, error) {
	of := images[0].manifest.Descriptor
	var more []blob
	if len(images) > 1 {
		all := newIndex()
		for _, img := range images {
			d := img.manifest.Descriptor
			d.Platform = &img.platform
			all.Manifests = append(all.Manifests, d)
		}
		b, err := newJSON(oci.MediaTypeImageIndex, all)
		if err != nil {
			return index{}, err
		}
		of, more = b.Descriptor, []blob{b}
	} else {
		of.Platform = &images[0].platform
	}
	top := newIndex()
	for _, tag := range r.tags() {
		named := of
		named.Annotations = map[string]string{
			"io.containerd.image.name": "docker.io/library/" + repository + ":" + tag, // containerd and Docker from 25 on
			oci.AnnotationRefName:      tag,
		}
		top.Manifests = append(top.Manifests, named)
	}
	return index{top, more}, nil
}

func newIndex() oci.Index {
	return oci.Index{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: oci.MediaTypeImageIndex}
}

// blobsOf returns each blob once, by digest.
func blobsOf(i index, images []*builtImage) []blob {
	all := slices.Clone(i.more)
	for _, img := range images {
		all = append(all, img.layer, img.config, img.manifest)
	}
	slices.SortFunc(all, func(a, b blob) int { return strings.Compare(string(a.Digest), string(b.Digest)) })
	return slices.CompactFunc(all, func(a, b blob) bool { return a.Digest == b.Digest })
}

func blobPath(b blob) string { return "blobs/sha256/" + b.Digest.Encoded() }

// dockerList is manifest.json, as "docker save" writes it.
func dockerList(r release, img *builtImage) ([]byte, error) {
	var names []string
	for _, tag := range r.tags() {
		names = append(names, repository+":"+tag)
	}
	return json.Marshal([]struct {
		Config   string
		RepoTags []string
		Layers   []string
	}{{blobPath(img.config), names, []string{blobPath(img.layer)}}})
}
