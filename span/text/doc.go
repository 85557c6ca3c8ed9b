// Package text has what every part of Tare does with texts that others wrote: it cuts those that are too long, and
// makes visible what would not be seen, or would be obeyed, where a text is shown.
package text
