//! Followers against the server: whatever the order of edits, joins, leaves, presenters and replacements, a follower
//! that has heard everything has the server's document, and one with a read-only link has changed nothing.

#![expect(clippy::unwrap_used, reason = "a test that meets `None` or `Err` has failed")]

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Map, Value, json};
use shared_view::{
    Condition, Document, Edit, Following, MAX_DOCUMENTS, News, ReadOnlyId, Refusal, SharedViews, ViewName,
    WatcherId, Write,
};
use units::{Instant, Random, WallTime};

const SEEDS: u64 = 300;
const STEPS: u32 = 200;
const NAMES: [&str; 2] = ["rod", "heat"];
const PAGES: u64 = 6;

/// What a page knows of the document that it follows.
#[derive(Default)]
struct Page {
    view: Option<String>,
    revision: u64,
    fields: Map<String, Value>,
    watchers: Vec<(String, bool)>,
}

impl Page {
    fn hear(&mut self, news: News) {
        match news {
            News::Whole { document, .. } => {
                self.view = document["name"].as_str().map(str::to_owned);
                self.revision = document["revision"].as_u64().unwrap();
                self.fields = document["fields"].as_object().unwrap().clone();
            }
            News::Changed { name, revision, fields, .. } => {
                assert_eq!(self.view.as_deref(), Some(name.as_str()));
                assert!(revision > self.revision, "a page is told of no change twice");
                self.revision = revision;
                for (field, value) in fields {
                    match value {
                        Value::Null if field.starts_with("plot/") => drop(self.fields.remove(&field)),
                        value => drop(self.fields.insert(field, value)),
                    }
                }
            }
            News::Watchers { watchers, .. } => {
                self.watchers = watchers.iter().map(|it| (it.id.to_string(), it.is_presenter)).collect();
            }
            News::Notice(text) => assert!(text.contains(" presents this view now instead of "), "{text}"),
            News::Gone(name) => {
                // It may have been deleted before the page heard anything of it.
                assert!(self.view.as_deref().is_none_or(|view| view == name.as_str()));
                *self = Self::default();
            }
        }
    }
}

struct Scene {
    views: SharedViews,
    pages: BTreeMap<u64, Page>,
    read_only: BTreeMap<u64, bool>,
    random: Random,
    now: u64,
    links: u128,
}

fn name(text: &str) -> ViewName {
    text.parse().unwrap()
}

fn edit(fields: &Value) -> Result<Edit, Refusal> {
    Edit::new(fields.as_object().unwrap().clone())
}

fn following(watcher: u64) -> Following {
    let user = watcher.is_multiple_of(2).then(|| format!("user{watcher}"));
    Following { watcher: WatcherId(watcher), user, write: Write::Allowed }
}

impl Scene {
    fn new(seed: u64) -> Self {
        Self {
            views: SharedViews::default(),
            pages: BTreeMap::new(),
            read_only: BTreeMap::new(),
            random: Random::new(seed),
            now: 0,
            links: u128::from(seed) << 64,
        }
    }

    fn by(&self) -> (WallTime, Option<String>) {
        (WallTime::from_nanos(i64::try_from(self.now).unwrap()), None)
    }

    fn any_name(&mut self) -> ViewName {
        name(NAMES[usize::try_from(self.random.below(2)).unwrap()])
    }

    /// Returns one to three fields, rarely one that does not fit.
    fn any_edit(&mut self) -> Result<Edit, Refusal> {
        let mut fields = Map::new();
        for _ in 0..=self.random.below(3) {
            let number = self.random.next_u64() % 1_000;
            let plot = format!("plot/p{}", number % 5);
            let (field, value) = match self.random.below(10) {
                0 => ("title".to_owned(), json!(format!("title {number}"))),
                1 => ("window".to_owned(), json!({"span_ns": number + 1, "end_ns": null})),
                2 => ("cursors".to_owned(), Value::Null),
                3 => ("order".to_owned(), json!([format!("p{}", number % 5)])),
                8 => (
                    "run".to_owned(),
                    json!({"id": format!("shot-{number}"), "relative": number.is_multiple_of(2)}),
                ),
                9 => ("run".to_owned(), Value::Null),
                4 | 5 => (plot, Value::Null),
                6 if number == 0 => ("plot/P".to_owned(), Value::Null),
                _ => (plot, json!({"panel": "trend", "rows": number + 1})),
            };
            fields.insert(field, value);
        }
        Edit::new(fields)
    }

    fn step(&mut self) {
        self.now += self.random.below(200_000_000);
        let watcher = self.random.below(PAGES);
        let (view, id) = (self.any_name(), WatcherId(watcher));
        match self.random.below(20) {
            0 | 1 => {
                let (edit, by) = (self.any_edit(), self.by());
                self.links += 1;
                let on = if self.random.chance(0.3) { Condition::IfNew } else { Condition::Always };
                drop(self.views.put(&view, edit, on, ReadOnlyId::new(self.links), by));
            }
            2 if self.random.chance(0.2) => drop(self.views.delete(&view, Condition::Always)),
            2 | 3 => {
                let (edit, by) = (self.any_edit(), self.by());
                drop(self.views.patch(&view, edit, Condition::Always, by));
            }
            4..=6 => self.follow(watcher, &view),
            7 => {
                self.views.unfollow(id);
                self.pages.remove(&watcher);
            }
            8 => drop(self.views.present(id, true)),
            9 => drop(self.views.present(id, false)),
            10..=15 => self.edit(watcher),
            _ => self.poll(watcher),
        }
    }

    fn follow(&mut self, watcher: u64, view: &ViewName) {
        let link = self.views.document(view).map(Document::read_only_id);
        let is_read_only = self.random.chance(0.4);
        let followed = match link {
            Ok(link) if is_read_only => self.views.watch(following(watcher), link),
            _ => self.views.follow(following(watcher), view),
        };
        if followed.is_ok() {
            self.pages.insert(watcher, Page::default());
            self.read_only.insert(watcher, is_read_only);
        }
    }

    fn edit(&mut self, watcher: u64) {
        let id = WatcherId(watcher);
        let edit = self.any_edit();
        let before = self.views.followed(id).map(|name| (name.clone(), self.text_of(name)));
        let presenter = before
            .as_ref()
            .ok()
            .and_then(|(name, _)| self.views.list().into_iter().find(|it| it.name == *name)?.presenter);
        let written = self.views.edit(id, edit, self.by().0);
        let Ok((name, text)) = before else {
            assert_eq!(written, Err(Refusal::NotFollowing));
            return;
        };
        if self.read_only[&watcher] {
            assert_eq!(written, Err(Refusal::ReadOnly));
            assert!(self.views.present(id, true).is_err());
        }
        if let (Some(presenter), Ok(_)) = (presenter, &written) {
            assert!(presenter == format!("user{watcher}") || presenter == id.to_string(), "{presenter}");
        }
        if written.is_err() {
            assert_eq!(self.text_of(&name), text, "what is refused changes nothing");
        }
    }

    fn text_of(&self, name: &ViewName) -> String {
        self.views.document(name).unwrap().to_json().to_string()
    }

    fn poll(&mut self, watcher: u64) {
        let news = self.views.news(WatcherId(watcher), Instant::from_nanos(self.now));
        match self.pages.get_mut(&watcher) {
            Some(page) => news.into_iter().for_each(|news| page.hear(news)),
            None => assert_eq!(news, Vec::new(), "one that does not follow is told nothing"),
        }
    }

    /// Lets every page hear everything, and compares it with the server.
    fn settle(&mut self) {
        self.now += 1_000_000_000;
        let followers: Vec<u64> = self.pages.keys().copied().collect();
        for watcher in followers {
            self.poll(watcher);
            self.poll(watcher);
            assert_eq!(self.views.due(WatcherId(watcher)), None);
            let page = &self.pages[&watcher];
            let Ok(name) = self.views.followed(WatcherId(watcher)) else {
                assert_eq!(page.view, None, "a page of a deleted document knows it");
                continue;
            };
            let document = self.views.document(name).unwrap();
            let fields: Map<_, _> =
                document.fields().map(|(name, value)| (name.to_owned(), value.clone())).collect();
            assert_eq!((&page.fields, page.revision), (&fields, document.revision()), "w{watcher}");
            let summary = self.views.list().into_iter().find(|it| it.name == *name).unwrap();
            assert_eq!(page.watchers.len(), summary.watchers);
            let presents = page.watchers.iter().filter(|(_, is_presenter)| *is_presenter).count();
            assert_eq!(presents, usize::from(summary.presenter.is_some()));
        }
        let counts = self.views.counts();
        assert_eq!(counts.offered, counts.applied + counts.refused.values().sum::<u64>());
    }
}

#[test]
fn followers_converge_whatever_the_order_and_read_only_links_never_write() {
    for seed in 0..SEEDS {
        let mut scene = Scene::new(seed);
        for _ in 0..STEPS {
            scene.step();
        }
        scene.settle();
        // What is stored is what is read again.
        for unsaved in scene.views.take_unsaved() {
            let Some(text) = unsaved.content else { continue };
            let read = Document::from_json(unsaved.name.clone(), text.as_bytes()).unwrap();
            assert_eq!(read.to_json(), scene.views.document(&unsaved.name).unwrap().to_json(), "seed {seed}");
        }
        assert_eq!(scene.views.unsaved(), 0);
    }
}

/// Makes one document that the pages 1 and 2 follow.
fn followed() -> SharedViews {
    let mut views = SharedViews::default();
    let fields = edit(&json!({"title": "Rod", "plot/a": {"panel": "trend"}}));
    let by = (WallTime::default(), Some("anna".to_owned()));
    views.put(&name("rod"), fields, Condition::IfNew, ReadOnlyId::new(7), by).unwrap();
    for watcher in [1, 2] {
        views.follow(following(watcher), &name("rod")).unwrap();
        views.news(WatcherId(watcher), Instant::default());
    }
    views.news(WatcherId(1), Instant::from_nanos(1_000_000_000));
    views
}

#[test]
fn while_one_presents_others_are_refused_until_it_leaves() {
    let mut views = followed();
    let (one, two, now) = (WatcherId(1), WatcherId(2), WallTime::default());
    let title = |text: &str| edit(&json!({"title": text}));
    views.present(two, true).unwrap();
    let refused = views.edit(one, title("mine"), now).unwrap_err();
    assert!(refused.to_string().starts_with("user2 presents this view"), "{refused}");
    let patched = views.patch(&name("rod"), title("mine"), Condition::Always, (now, None));
    assert_eq!(patched, Err(Refusal::Presented("user2".to_owned())));
    assert!(views.delete(&name("rod"), Condition::Always).is_err());
    assert_eq!(views.edit(two, title("theirs"), now), Ok(2));
    // The other one takes it over, and all are told.
    views.present(one, true).unwrap();
    let told = views.news(two, Instant::default());
    let notice = News::Notice("w1 presents this view now instead of user2".to_owned());
    assert!(told.contains(&notice), "{told:?}");
    assert!(matches!(told.last(), Some(News::Watchers { .. })), "a presenter is told at once: {told:?}");
    // One who presents no longer cannot end the presentation of another.
    views.present(two, false).unwrap();
    assert!(views.edit(two, title("again"), now).is_err());
    views.unfollow(one);
    assert_eq!(views.edit(two, title("free"), now), Ok(3));
}

#[test]
fn a_slow_follower_is_told_the_newest_values_by_author_and_nothing_in_between() {
    let mut views = followed();
    for number in 1..=50 {
        let fields = edit(&json!({"window": {"span_ns": number, "end_ns": null}}));
        views.edit(WatcherId(2), fields, WallTime::default()).unwrap();
    }
    let deleted = json!({"plot/a": null, "plot/never": null});
    views.edit(WatcherId(1), edit(&deleted), WallTime::default()).unwrap();
    let news = views.news(WatcherId(1), Instant::default());
    let told: Vec<Value> = news.into_iter().map(News::into_json).collect();
    let span = json!({"window": {"span_ns": 50, "end_ns": null}});
    assert_eq!(
        told,
        [
            json!({"type": "shared_view_changed", "name": "rod", "revision": 51, "changed_by": "user2", "by": "w2", "fields": span}),
            json!({"type": "shared_view_changed", "name": "rod", "revision": 52, "changed_by": null, "by": "w1",
                "fields": deleted}),
        ]
    );
    assert_eq!(views.news(WatcherId(1), Instant::default()), []);
}

#[test]
fn many_who_come_are_told_at_once_after_a_while() {
    let mut views = followed();
    let now = Instant::from_nanos(1_000_000_000) + Duration::from_millis(1);
    for watcher in 10..20 {
        views.follow(following(watcher), &name("rod")).unwrap();
        assert_eq!(views.news(WatcherId(1), now), []);
    }
    let due = views.due(WatcherId(1)).unwrap();
    let News::Watchers { watchers, .. } = &views.news(WatcherId(1), due)[0] else { panic!("the list") };
    assert_eq!((watchers.len(), views.due(WatcherId(1))), (12, None));
}

#[test]
fn a_read_only_follower_is_told_no_link_and_why_it_may_not_edit() {
    let mut views = followed();
    views.watch(following(9), ReadOnlyId::new(7)).unwrap();
    let told = views.news(WatcherId(9), Instant::default()).remove(0).into_json();
    assert_eq!((&told["may_write"], &told["you"]), (&json!(false), &json!("w9")));
    assert!(told["why_not"].as_str().unwrap().starts_with("this link is read-only\n"));
    assert_eq!(told["document"].get("read_only_id"), None);
    views.follow(following(9), &name("rod")).unwrap();
    let told = views.news(WatcherId(9), Instant::default()).remove(0).into_json();
    assert_eq!(told["document"]["read_only_id"], json!("00000000000000000000000000000007"));
    assert_eq!(views.watch(following(9), ReadOnlyId::new(8)), Err(Refusal::NoLink));
}

#[test]
fn both_sides_of_the_number_and_the_size_of_documents() {
    let mut views = SharedViews::default();
    let put = |views: &mut SharedViews, text: &str, fields: &Value| {
        let link = ReadOnlyId::new(views.documents() as u128 + 1);
        views.put(&name(text), edit(fields), Condition::Always, link, (WallTime::default(), None))
    };
    for number in 0..MAX_DOCUMENTS {
        put(&mut views, &format!("v{number}"), &json!({"title": ""})).unwrap();
    }
    assert_eq!(put(&mut views, "more", &json!({"title": ""})), Err(Refusal::TooManyViews));
    assert_eq!(put(&mut views, "v7", &json!({"title": "x"})), Ok(2), "one that exists can be replaced");
    // `"plot/a":{"panel":"x","more":""},` is 33 bytes without the text.
    let of_size = |bytes: usize| json!({"plot/a": {"panel": "x", "more": "y".repeat(bytes - 33)}});
    assert_eq!(put(&mut views, "v8", &of_size(64 * 1024)), Ok(2));
    assert_eq!(put(&mut views, "v8", &of_size(64 * 1024 + 1)), Err(Refusal::TooLarge(64 * 1024 + 1)));
    let one_more = views.patch(
        &name("v8"),
        edit(&json!({"single": null})),
        Condition::Always,
        (WallTime::default(), None),
    );
    assert!(matches!(one_more, Err(Refusal::TooLarge(_))));
    views.delete(&name("v9"), Condition::IfRevision(1)).unwrap();
    assert_eq!(put(&mut views, "more", &json!({"title": ""})), Ok(1));
    assert_eq!(views.counts().refused.values().sum::<u64>(), 3);
}

#[test]
fn a_condition_on_the_revision_is_kept() {
    let mut views = followed();
    let now = (WallTime::default(), None);
    let title = || edit(&json!({"title": "x"}));
    let mut put = |on| views.put(&name("rod"), title(), on, ReadOnlyId::new(1), now.clone());
    assert_eq!(put(Condition::IfNew), Err(Refusal::Exists("rod".to_owned())));
    assert_eq!(put(Condition::IfRevision(2)), Err(Refusal::Stale { given: 2, revision: 1 }));
    assert_eq!(put(Condition::IfRevision(1)), Ok(2));
    // A replacement is told as a whole: what it leaves out is gone.
    let told = views.news(WatcherId(1), Instant::default()).remove(0).into_json();
    assert_eq!((&told["type"], &told["document"]["fields"]), (&json!("shared_view"), &json!({"title": "x"})));
    let other = views.put(&name("no"), title(), Condition::IfRevision(1), ReadOnlyId::new(2), now);
    assert_eq!(other, Err(Refusal::NoView("no".to_owned())));
}

#[test]
fn a_stored_document_that_is_cut_or_changed_is_damage() {
    let views = followed();
    let text = views.document(&name("rod")).unwrap().to_json().to_string();
    for end in 0..text.len() {
        assert!(Document::from_json(name("rod"), &text.as_bytes()[..end]).is_err(), "{end}");
    }
    for (part, other) in [
        ("\"rod\"", "\"heat\""),
        ("\"revision\":1", "\"revision\":0"),
        ("\"title\":1", "\"title\":2"),
        ("plot/a", "plot/A"),
        ("0000007", "000000"),
        ("\"changed_ns\":0", "\"changed_ns\":\"0\""),
    ] {
        let changed = text.replacen(part, other, 9);
        assert_ne!(changed, text, "{part}");
        assert!(Document::from_json(name("rod"), changed.as_bytes()).is_err(), "{part}");
    }
}
