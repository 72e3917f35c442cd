package configs

import "strings"

// didYouMean returns `, did you mean "liveness"?` when one of known is close to
// what was written, and nothing when none is.
func didYouMean(written string, known []string) string {
	if len(written) > maxShown {
		return ""
	}
	best, bestDistance := "", 1+max(1, len(written)/3)
	word := normal(written)
	for _, candidate := range known {
		if d := distance(word, normal(candidate)); d < bestDistance {
			best, bestDistance = candidate, d
		}
	}
	if best == "" {
		return ""
	}
	return `, did you mean "` + best + `"?`
}

// normal makes periodSeconds, as Kubernetes writes it, and period equal.
func normal(key string) string {
	key = strings.TrimSuffix(strings.ToLower(key), "seconds")
	return strings.NewReplacer("_", "", "-", "").Replace(key)
}

// distance is the number of characters to insert, delete, replace or swap with
// their neighbour to turn a into b.
func distance(a, b string) int {
	var before []int
	last := make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := range len(a) {
		row := make([]int, len(b)+1)
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			row[j+1] = min(last[j+1]+1, row[j]+1, last[j]+cost)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, last = last, row
	}
	return last[len(b)]
}

// alternatives returns "a", "b" or "c".
func alternatives(words []string) string {
	var b strings.Builder
	for i, word := range words {
		switch i {
		case 0:
		case len(words) - 1:
			b.WriteString(" or ")
		default:
			b.WriteString(", ")
		}
		b.WriteString(quote(word))
	}
	return b.String()
}
