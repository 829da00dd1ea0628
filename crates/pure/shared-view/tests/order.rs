//! Pages that add, delete and move plots at one time, each as far as it has been told: every plot that exists has a place.

#![expect(clippy::unwrap_used, reason = "a test that meets `None` or `Err` has failed")]

use serde_json::{Map, Value, json};
use shared_view::{
    Condition, Edit, Following, MAX_ORDER, News, ReadOnlyId, Refusal, SharedViews, ViewName, WatcherId, Write,
};
use units::{Instant, Random, WallTime};

const SEEDS: u64 = 300;
const STEPS: u32 = 300;
const PAGES: u64 = 4;

/// What a page was told.
#[derive(Clone, Default)]
struct Page {
    order: Vec<String>,
    order_revision: u64,
    /// An edit that the server has not read.
    sent: Option<Edit>,
}

impl Page {
    fn hear(&mut self, news: News) {
        let (revision, fields) = match &news {
            News::Whole { document, .. } => (document["revision"].as_u64().unwrap(), &document["fields"]),
            News::Changed { revision, fields, .. } => (*revision, &Value::Object(fields.clone())),
            News::Watchers { .. } | News::Notice(_) | News::Gone(_) => return,
        };
        if let Some(order) = fields.get("order") {
            self.order = serde_json::from_value(order.clone()).unwrap();
            self.order_revision = revision;
        }
    }

    /// Adds, deletes or moves a plot of those that it knows.
    fn change(&mut self, random: &mut Random, fresh: u64) {
        let mut order = self.order.clone();
        let below = |random: &mut Random, count: usize| usize::try_from(random.below(count as u64)).unwrap();
        let mut fields = Map::new();
        match random.below(5) {
            0..=2 if order.len() < MAX_ORDER => {
                let id = format!("n{fresh}");
                fields.insert(format!("plot/{id}"), json!({"panel": "trend"}));
                order.insert(below(random, order.len() + 1), id);
            }
            3 if !order.is_empty() => {
                let id = order.remove(below(random, order.len()));
                fields.insert(format!("plot/{id}"), Value::Null);
            }
            _ if !order.is_empty() => {
                let moved = order.remove(below(random, order.len()));
                order.insert(below(random, order.len() + 1), moved);
            }
            _ => {}
        }
        fields.insert("order".to_owned(), order.into());
        self.sent = Some(Edit::new(fields).unwrap().knowing_order(self.order_revision));
    }
}

/// Returns the ids of the plots there are, and those in the order, each sorted.
fn plots(views: &SharedViews, name: &ViewName) -> [Vec<String>; 2] {
    let document = views.document(name).unwrap();
    let there = document.fields().filter_map(|(field, _)| field.strip_prefix("plot/")).map(str::to_owned);
    let mut placed: Vec<String> = serde_json::from_value(document.field("order").unwrap().clone()).unwrap();
    placed.sort();
    let mut there: Vec<_> = there.collect();
    there.sort();
    [there, placed]
}

#[test]
fn every_plot_has_a_place_whoever_adds_deletes_or_moves_others_at_the_same_time() {
    let name: ViewName = "rod".parse().unwrap();
    let mut too_many = 0;
    for seed in 0..SEEDS {
        let (mut views, mut random) = (SharedViews::default(), Random::new(seed));
        let first = json!({"order": ["a", "b"], "plot/a": {"panel": "trend"}, "plot/b": {"panel": "trend"}});
        let first = Edit::new(first.as_object().unwrap().clone());
        let by = (WallTime::default(), None);
        views.put(&name, first, Condition::IfNew, ReadOnlyId::new(1), by).unwrap();
        let mut pages = vec![Page::default(); usize::try_from(PAGES).unwrap()];
        for watcher in 0..PAGES {
            let watcher = WatcherId(watcher);
            views.follow(Following { watcher, user: None, write: Write::Allowed }, &name).unwrap();
        }
        for step in 0..STEPS {
            let number = random.below(PAGES);
            let page = &mut pages[usize::try_from(number).unwrap()];
            match random.below(3) {
                0 => {
                    views.news(WatcherId(number), Instant::default()).into_iter().for_each(|it| page.hear(it))
                }
                // As the page does, it waits with the next edit.
                1 if page.sent.is_none() && page.order_revision > 0 => page.change(&mut random, step.into()),
                _ => {
                    let Some(edit) = page.sent.take() else { continue };
                    match views.edit(WatcherId(number), Ok(edit), WallTime::default()) {
                        Err(Refusal::TooManyPlots(_)) => too_many += 1,
                        edited => assert!(edited.is_ok(), "{edited:?}"),
                    }
                    let [there, placed] = plots(&views, &name);
                    assert_eq!(there, placed, "seed {seed}, step {step}");
                }
            }
        }
    }
    assert!(too_many > 0, "the limit was met, too");
}

#[test]
fn both_sides_of_the_number_of_plots_that_two_pages_add_together() {
    let name: ViewName = "rod".parse().unwrap();
    let plots = |range: std::ops::Range<usize>| {
        let ids: Vec<_> = range.clone().map(|number| format!("p{number}")).collect();
        let plots = ids.iter().map(|id| (format!("plot/{id}"), json!({"panel": "trend"})));
        let order = ("order".to_owned(), json!(ids));
        Edit::new(plots.chain([order]).collect())
    };
    let write = |known: usize, mine: std::ops::Range<usize>| {
        let mut views = SharedViews::default();
        let by = || (WallTime::default(), None);
        views.put(&name, plots(0..0), Condition::IfNew, ReadOnlyId::new(1), by()).unwrap();
        views.patch(&name, plots(0..known), Condition::Always, by()).unwrap();
        let edit = plots(mine).map(|edit| edit.knowing_order(1));
        views.patch(&name, edit, Condition::Always, by()).map(|_| views)
    };
    let views = write(20, 20..MAX_ORDER).unwrap();
    assert_eq!(views.document(&name).unwrap().field("order").unwrap().as_array().unwrap().len(), MAX_ORDER);
    let refused = write(20, 20..MAX_ORDER + 1).unwrap_err();
    assert_eq!(refused, Refusal::TooManyPlots(MAX_ORDER + 1));
    assert_eq!(refused.to_string().lines().count(), 2);
}

#[test]
fn an_edit_without_a_revision_writes_its_order_as_it_is() {
    let name: ViewName = "rod".parse().unwrap();
    let mut views = SharedViews::default();
    let edit = |value: Value| Edit::new(value.as_object().unwrap().clone());
    let by = || (WallTime::default(), None);
    let first = edit(json!({"order": ["a"], "plot/a": {"panel": "trend"}}));
    views.put(&name, first, Condition::IfNew, ReadOnlyId::new(1), by()).unwrap();
    views.patch(&name, edit(json!({"order": ["later"]})), Condition::Always, by()).unwrap();
    assert_eq!(views.document(&name).unwrap().field("order"), Some(&json!(["later"])));
}
