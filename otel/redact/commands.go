package redact

import "strings"

// commands of Redis and memcached that have a key, or words that are no data,
// in the second place.
var commands = wordSet(`append bitcount bitfield bitop bitpos blmove blmpop blpop brpop brpoplpush bzmpop bzpopmax bzpopmin cas copy
decr decrby del discard dump exec exists expire expireat expiretime flushall flushdb gat gats geoadd geodist geohash geopos georadius
geosearch geosearchstore get getbit getdel getex getrange gets getset hdel hexists hget hgetall hgetdel hgetex hincrby hincrbyfloat hkeys hlen hmget
hmset hpexpire hexpire hrandfield hscan hset hsetex hsetnx hstrlen httl hvals incr incrby incrbyfloat keys lcs lindex linsert llen lmove lmpop lpop lpos
lpush lpushx lrange lrem lset ltrim mget move mset msetnx multi object persist pexpire pexpireat pexpiretime pfadd pfcount pfmerge ping
prepend psetex psubscribe pttl publish randomkey rename renamenx restore rpop rpoplpush rpush rpushx sadd scan scard sdiff sdiffstore
set setbit setex setnx setrange sinter sintercard sinterstore sismember smembers smismember smove sort spop spublish srandmember srem
sscan ssubscribe stats strlen subscribe sunion sunionstore time touch ttl type unlink unsubscribe unwatch verbosity version wait watch
xack xadd xautoclaim xclaim xdel xgroup xinfo xlen xpending xrange xread xreadgroup xrevrange xtrim zadd zcard zcount zdiff zdiffstore
zincrby zinter zinterstore zlexcount zmpop zmscore zpopmax zpopmin zrandmember zrange zrangebylex zrangebyscore zrangestore zrank zrem
zremrangebyscore zrevrange zrevrank zscan zscore zunion zunionstore`)

// keyless commands may have a secret in any place.
var keyless = wordSet(`acl auth client config debug echo eval evalsha eval_ro evalsha_ro fcall fcall_ro function hello migrate module script select slaveof replicaof`)

// words are in lower case.
type words map[string]bool

// has ignores case, without allocating.
func (w words) has(word string) bool {
	var room [24]byte
	if len(word) > len(room) {
		return false
	}
	for i := range len(word) {
		room[i] = lower(word[i])
	}
	return w[string(room[:len(word)])]
}

func wordSet(list string) words {
	set := words{}
	for _, w := range strings.Fields(list) {
		set[w] = true
	}
	return set
}

// isCommand tells commands from SQL, which shares a few words with them:
// SET x = 1, SET x TO 1, SELECT …, COPY … FROM, MOVE, TRUNCATE.
func isCommand(text string) bool {
	line := text
	if n := strings.IndexByte(text, '\n'); n >= 0 {
		line = text[:n]
	}
	end, key := wordAt(line, 0, len(line))
	name := line[:end]
	if !commands.has(name) && !keyless.has(name) {
		return false
	}
	after, next := wordAt(line, key, len(line))
	third, _ := wordAt(line, next, len(line))
	switch {
	case strings.EqualFold(name, "select"): // SELECT 3 changes the database; nothing else of SQL has digits alone there
		return next == len(line) && strings.Trim(line[key:after], "0123456789") == "" && after > key
	case strings.EqualFold(name, "set"):
		w := line[next:third]
		return !strings.ContainsAny(line[key:after], "=@") && !strings.HasPrefix(w, "=") && !strings.HasPrefix(w, ":=") && !strings.EqualFold(w, "to")
	case strings.EqualFold(name, "copy"):
		w := line[next:third]
		return !strings.EqualFold(w, "from") && !strings.EqualFold(w, "to") && !strings.HasPrefix(line[key:after], "(")
	}
	return true
}
