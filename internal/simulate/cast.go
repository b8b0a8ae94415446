package simulate

// cast is who plays. Made-up handles in several scripts, some right to left, some long, some hardly more than emoji:
// what a page has to cope with.
var cast = []string{
	"mochi_cat", "NeonOtter", "Zoë Zigzag", "🦊 fennec", "نجمة_الليل", "צב_מהיר", "さくらもち", "Captain Pickle",
	"dx_void", "Grandma Turbo", "pixel.panda", "Ünsinn", "💥boom💥", "Łoś_na_rowerze", "tofu-samurai", "Лунный_кот",
	"crumbs", "MissMatch", "the-quite-unreasonably-long-handle-of-a-very-patient-code-breaker", "고래밥", "ostrich_42",
	"velvet hammer", "قط_فضائي", "🐙🎩", "Dr. Waffle", "nullpuncher", "Kaffeeklatsch", "marzipan", "ghost of turn 7", "bit_badger",
}

var rooms = []string{
	"Neon Lagoon", "Moss Cathedral", "The Copper Attic", "Comet Diner", "Sunken Arcade", "Velvet Vault", "Tin Moon",
	"Paper Lighthouse", "Room 0x1E", "The Humming Greenhouse",
}

var notices = []string{
	"Double sparkle for the next five guesses ✨",
	"The vault hums. Somebody is close.",
	"Reminder: six emoji, order matters, luck does not",
	"Half time! Stretch, sip, guess again",
	"A wild 🦄 was seen near slot three",
	"Support is awake and has cookies 🍪",
	"تذكير: ست رموز، والترتيب مهم",
}

var removals = []string{"guess sent twice", "played from two devices", "withdrawn by the player", "round restarted by the referee"}

var voidings = []string{"not enough players", "threshold not met in time", "room closed for maintenance"}

// strange are kinds that no renderer was told of.
var strange = []string{"emoji_storm", "cheered", "streak_broken", "chest_found"}

var emoji = []string{"😀", "🔥", "🦄", "🍕", "🚀", "🌵", "🎲", "🐙", "🍩", "⚡", "🌙", "🎧", "🧊", "🪁", "🍄", "👾"}
