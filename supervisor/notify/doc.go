// Package notify tells people what they would want to be woken for: a crash loop, a container
// that healthd gave up, a service without a ready member, an engine that is away, a journal
// that cannot be written. It tells by webhook, by a command, and by chat or mail.
//
//	Board, History ── wake ──▶ Notifier.Run, one goroutine that owns all state
//	                             look:           board → facts, at most once a second
//	                             incidents.step: facts → what is open
//	                             outbox.step:    what is open, less what was told → a message
//	                             File:           what was told and what is pending
//	                                  │ one attempt at a time for each receiver
//	                                  ▼
//	                             webhook │ command │ chat, mail (a process of its own)
//
// The supervisor's loop does not know of any of this, and never waits for it. look and the two
// steps are pure: they have no clock and no I/O.
//
// A receiver is told the difference between what is open and what it was told. So containers
// that fail together make one message, what is over before it was told makes none, and after
// a restart healthd tells nothing twice and forgets nothing. A message waits until the File has it, is
// tried again with a back-off, and has an ID by which its receiver knows a repetition.
//
//	notify.go    Notifier, Receiver; round.go: one round of Run; attempts.go: what it sends
//	facts.go     what is wrong, read from the board; services.go, describe.go
//	incident.go  which of that is an incident, and since when
//	outbox.go    what one receiver is told, and when; bucket.go: how often at most
//	queue.go     messages that wait for their receiver, and their back-off
//	message.go   a message as JSON (schema.json); text.go: for people
//	webhook.go, command.go, chat.go   how it goes out; redact.go: what is never shown
package notify
