// Writes lines to a LevelDB database, each acknowledged on standard output when it is written: `leveldb sync` or
// `leveldb nosync`. `leveldb check` holds what is there against what was acknowledged, as a check of `strobe crash`.
#include <leveldb/c.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LINES = 150, VALUE_BYTES = 1000 };

static void value_of(int line, char *value)
{
	for (int at = 0; at < VALUE_BYTES; at++)
		value[at] = 'a' + (line * 31 + at * (line + 7)) % 26;
}

static void must(char *error, int code)
{
	if (error) {
		printf("%s\n", error);
		exit(code);
	}
}

static int check(leveldb_options_t *options)
{
	int last = 0, line = 0, lost = 0;
	FILE *said = fopen(getenv("STROBE_ACKNOWLEDGED"), "r");
	while (said && fscanf(said, "%d", &line) == 1)
		last = line;
	char *error = NULL;
	leveldb_t *db = leveldb_open(options, "db", &error);
	// A database that was not made yet has nothing to lose.
	must(error, last == 0 ? 0 : 2);
	leveldb_readoptions_t *reading = leveldb_readoptions_create();
	leveldb_readoptions_set_verify_checksums(reading, 1);
	char key[16], value[VALUE_BYTES];
	for (line = 1; line <= LINES; line++) {
		size_t bytes = 0;
		snprintf(key, sizeof key, "%08d", line);
		char *found = leveldb_get(db, reading, key, strlen(key), &bytes, &error);
		must(error, 2);
		value_of(line, value);
		if (!found) {
			lost += line <= last;
		} else if (bytes != VALUE_BYTES || memcmp(found, value, bytes)) {
			printf("line %d is not what was written\n", line);
			return 2;
		}
	}
	if (lost)
		printf("%d of %d lines are lost\n", lost, last);
	return lost ? 1 : 0;
}

int main(int count, char **words)
{
	leveldb_options_t *options = leveldb_options_create();
	// Small, so that files are begun, merged and removed all the time.
	leveldb_options_set_write_buffer_size(options, 64 << 10);
	if (count == 2 && !strcmp(words[1], "check"))
		return check(options);
	leveldb_options_set_create_if_missing(options, 1);
	char *error = NULL;
	leveldb_t *db = leveldb_open(options, "db", &error);
	must(error, 3);
	leveldb_writeoptions_t *writing = leveldb_writeoptions_create();
	leveldb_writeoptions_set_sync(writing, count == 2 && !strcmp(words[1], "sync"));
	char key[16], value[VALUE_BYTES];
	for (int line = 1; line <= LINES; line++) {
		snprintf(key, sizeof key, "%08d", line);
		value_of(line, value);
		leveldb_put(db, writing, key, strlen(key), value, VALUE_BYTES, &error);
		must(error, 3);
		printf("%d\n", line);
		fflush(stdout);
		usleep(100000);
	}
	leveldb_close(db);
	return 0;
}
