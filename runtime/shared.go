package runtime

import "unique"

// Containers of one image, or of one Compose file, have many texts in common: names of labels, the image, variables.
// Each inspection brings them anew. With ten thousand containers they were a tenth of healthd's memory.

// Shared returns an equal text that is kept once.
func Shared(text string) string { return unique.Make(text).Value() }

// SharedAll returns equal texts, each of which is kept once; nil for nil. It changes all.
func SharedAll(all []string) []string {
	for i, text := range all {
		all[i] = Shared(text)
	}
	return all
}

// SharedKeys returns an equal map whose keys are kept once; nil for nil.
func SharedKeys(labels map[string]string) map[string]string {
	if labels == nil {
		return nil
	}
	shared := make(map[string]string, len(labels))
	for key, value := range labels {
		shared[Shared(key)] = value
	}
	return shared
}
